"""The demo's visitor: asks for history after the first visits, and for trends when all of it is indexed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.trends import DAY
from telegram_assistant.jobs import TRENDS
from telegram_assistant.jobs.trends import find_trends
from telegram_assistant.stores.postgres.jobs import JobRuns
from telegram_assistant.wiring.demo import PATIENCE, Visitor
from tests.integration.search.archive import NEWS, SPORT, SYSTEM, Archive
from tests.integration.trends.rising import CHANNELS, Past
from tests.integration.trends.rising import NOW as RISEN

pytestmark = pytest.mark.integration

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
NAMES = ("daily_news", "sport")


class Hand:
    """A clock that is set by hand."""

    def __init__(self, now: datetime = NOW) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


async def visited(archive: Archive, channel: int, since: int) -> None:
    """As capture leaves it: ten messages, known from `since` on."""
    await archive.run(
        "UPDATE channels SET requested_from = :since, cursor_id = 10, newest_id = 10, history_from = NULL,"
        " coverage = int8multirange(int8range(:since, 11)) WHERE id = :id",
        id=channel,
        since=since,
    )


async def asked_for(archive: Archive) -> set[int]:
    return {row.id for row in await archive.rows("SELECT id FROM channels WHERE history_from IS NOT NULL")}


async def runs(database: AsyncEngine) -> list[str]:
    return [job for job, _ in await JobRuns(database).asked()]


async def write(archive: Archive) -> UUID:
    """A post that is stored, and not indexed yet."""
    made = archive.source(1, "").post_id
    await archive.run(
        "INSERT INTO posts (id, channel_id, message_id, posted_at, text, content_hash) VALUES (:id, :channel, 1, :at,"
        " 'Комета вернулась', '')",
        id=made,
        channel=NEWS,
        at=NOW - DAY,
    )
    return made


async def test_history_first_then_trends(database: AsyncEngine, archive: Archive) -> None:
    visitor = Visitor(database, NAMES, clock=Hand())
    assert not await visitor.step()
    assert await asked_for(archive) == set()  # nobody was there yet

    await visited(archive, NEWS, since=7)
    assert not await visitor.step()
    assert await asked_for(archive) == {NEWS}
    await visited(archive, SPORT, since=1)  # has nothing older
    assert not await visitor.step()
    assert await asked_for(archive) == {NEWS}

    await visited(archive, NEWS, since=1)
    post = await write(archive)
    assert not await visitor.step()
    source = archive.source(1, "Комета вернулась", posted_at=NOW - DAY)
    await archive.index(source, whole=False)  # its words can be found, its tags are not known yet
    assert not await visitor.step()
    assert await runs(database) == []
    await archive.run("DELETE FROM search_documents WHERE post_id = :id", id=post)
    await archive.index(source)
    assert await visitor.step()
    assert await runs(database) == [TRENDS]


async def test_a_channel_that_was_given_up_is_left_alone(database: AsyncEngine, archive: Archive) -> None:
    await visited(archive, NEWS, since=7)
    await visited(archive, SPORT, since=1)
    await archive.run("UPDATE channels SET status = 'removed' WHERE id = :id", id=NEWS)
    assert await Visitor(database, NAMES, clock=Hand()).step()
    assert await asked_for(archive) == set()


async def test_it_does_not_wait_for_ever(database: AsyncEngine, archive: Archive) -> None:
    clock = Hand()
    visitor = Visitor(database, NAMES, clock=clock)
    await visited(archive, NEWS, since=1)  # and the other never is
    assert not await visitor.step()
    clock.now += PATIENCE + timedelta(seconds=1)
    assert await visitor.step()
    assert await runs(database) == [TRENDS]


async def test_where_trends_are_known_none_are_asked_for(database: AsyncEngine, archive: Archive) -> None:
    for number in CHANNELS:
        await archive.channel(number, f"channel_{number}", SYSTEM)
    past = Past(archive)
    await past.ordinary()
    await past.rise("Атлантида", CHANNELS[:7])
    assert (await find_trends(database, SYSTEM, RISEN)).new
    await visited(archive, NEWS, since=1)
    await visited(archive, SPORT, since=1)
    assert await Visitor(database, NAMES, clock=Hand(RISEN)).step()
    assert await runs(database) == []
