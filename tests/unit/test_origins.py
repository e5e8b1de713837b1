"""Several places where channels can be read: the first that can does, and the first says why none can."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

import pytest

from telegram_assistant.domain.accounts import Priority, Reach
from telegram_assistant.domain.channel import ChannelRef
from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.source import ChannelInfo, ReadElsewhere, Source, SourceError
from telegram_assistant.ingest.origins import Origins
from telegram_assistant.stores.postgres.channels import Channel

REF, TENANT = ChannelRef(username="news"), UUID(int=1)


class Place:
    """Reads everything, or nothing."""

    def __init__(
        self, name: str, *, able: bool, reach: Reach | None = None, failure: Failure = Failure.ACCOUNT
    ) -> None:
        self.name, self.able, self._reach, self.failure = name, able, reach, failure

    async def reach(self) -> Reach | None:
        return self._reach

    async def reader(self, channel: Channel, *, priority: Priority = Priority.VISIT) -> Source:  # noqa: ARG002 - one fits all
        return cast("Source", self._name())

    async def resolve(self, ref: ChannelRef, tenant_id: UUID) -> tuple[str, ChannelInfo]:  # noqa: ARG002 - one fits all
        return self._name(), ChannelInfo(id=1, title="News")

    def _name(self) -> Any:
        if not self.able:
            if self.failure is Failure.TRANSIENT:
                raise ReadElsewhere(f"{self.name} are another process's")
            raise SourceError(self.failure, f"{self.name} has no such channel")
        return self.name


async def test_the_first_that_can_does() -> None:
    origins = Origins(Place("accounts", able=False, reach=None), Place("archive", able=True, reach=None))
    assert str(await origins.reader(cast("Channel", None))) == "archive"
    assert (await origins.resolve(REF, TENANT))[0] == "archive"


async def test_what_none_can_is_told_in_the_words_of_the_first() -> None:
    origins = Origins(Place("accounts", able=False, reach=None), Place("archive", able=False, reach=None))
    with pytest.raises(SourceError, match="accounts has no such channel"):
        await origins.reader(cast("Channel", None))


async def test_of_several_reasons_the_one_that_leaves_most_hope_is_told() -> None:
    origins = Origins(Place("accounts", able=False), Place("previews", able=False, failure=Failure.CHANNEL_PRIVATE))
    with pytest.raises(SourceError, match="previews has no such channel"):
        await origins.resolve(REF, TENANT)


async def test_what_an_account_knows_not_to_exist_is_not_asked_for_elsewhere_but_in_a_demo() -> None:
    places = Place("accounts", able=False, failure=Failure.GONE), Place("previews", able=True)
    with pytest.raises(SourceError, match="accounts has no such channel"):
        await Origins(*places).resolve(REF, TENANT)
    assert (await Origins(*places, demo=True).resolve(REF, TENANT))[0] == "previews"


async def test_what_another_process_reads_is_left_to_it() -> None:
    origins = Origins(Place("accounts", able=False, failure=Failure.TRANSIENT), Place("previews", able=True))
    with pytest.raises(ReadElsewhere):
        await origins.reader(cast("Channel", None))
    away = Reach(elsewhere=("a",), living=("a",))
    assert (
        await Origins(Place("accounts", able=True, reach=away), Place("p", able=True, reach=Reach(("p",)))).reach()
        == away
    )


async def test_together_they_reach_what_each_reaches() -> None:
    one = Place("accounts", able=True, reach=Reach(knowing=("a",), asking=True, elsewhere=("b",), living=("a", "b")))
    other = Place("archive", able=True, reach=Reach(knowing=("archive",), living=("archive",)))
    expected = Reach(knowing=("a", "archive"), asking=True, elsewhere=("b",), living=("a", "b", "archive"))
    assert await Origins(one, other).reach() == expected
    assert await Origins(one, Place("all", able=True, reach=None)).reach() is None
