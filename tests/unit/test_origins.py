"""Several places where channels can be read: the first that can does, and the first says why none can."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

import pytest

from telegram_assistant.domain.accounts import Priority, Reach
from telegram_assistant.domain.channel import ChannelRef
from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.source import ChannelInfo, Source, SourceError
from telegram_assistant.ingest.origins import Origins
from telegram_assistant.stores.postgres.channels import Channel

REF, TENANT = ChannelRef(username="news"), UUID(int=1)


class Place:
    """Reads everything, or nothing."""

    def __init__(self, name: str, *, able: bool, reach: Reach | None) -> None:
        self.name, self.able, self._reach = name, able, reach

    async def reach(self) -> Reach | None:
        return self._reach

    async def reader(self, channel: Channel, *, priority: Priority = Priority.VISIT) -> Source:  # noqa: ARG002 - one fits all
        return cast("Source", self._name())

    async def resolve(self, ref: ChannelRef, tenant_id: UUID) -> tuple[str, ChannelInfo]:  # noqa: ARG002 - one fits all
        return self._name(), ChannelInfo(id=1, title="News")

    def _name(self) -> Any:
        if not self.able:
            raise SourceError(Failure.GONE, f"{self.name} has no such channel")
        return self.name


async def test_the_first_that_can_does() -> None:
    origins = Origins(Place("accounts", able=False, reach=None), Place("archive", able=True, reach=None))
    assert str(await origins.reader(cast("Channel", None))) == "archive"
    assert (await origins.resolve(REF, TENANT))[0] == "archive"


async def test_what_none_can_is_told_in_the_words_of_the_first() -> None:
    origins = Origins(Place("accounts", able=False, reach=None), Place("archive", able=False, reach=None))
    with pytest.raises(SourceError, match="accounts has no such channel"):
        await origins.reader(cast("Channel", None))


async def test_together_they_reach_what_each_reaches() -> None:
    one = Place("accounts", able=True, reach=Reach(knowing=("a",), asking=True, elsewhere=("b",), living=("a", "b")))
    other = Place("archive", able=True, reach=Reach(knowing=("archive",), living=("archive",)))
    expected = Reach(knowing=("a", "archive"), asking=True, elsewhere=("b",), living=("a", "b", "archive"))
    assert await Origins(one, other).reach() == expected
    assert await Origins(one, Place("all", able=True, reach=None)).reach() is None
