"""An account and the public preview of a channel check each other: what differs is kept and never resolved here."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from redis.asyncio import Redis
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.config import Settings
from telegram_assistant.domain.access import SYSTEM_TENANT
from telegram_assistant.domain.source import SourceError
from telegram_assistant.domain.witnesses import Difference, Differs
from telegram_assistant.ingest.witnesses import Comparison
from telegram_assistant.source.preview import Previews
from telegram_assistant.stores.postgres.witnesses import Disagreement, Witnesses
from telegram_assistant.wiring.previews import open_previews
from telegram_simulator.faults import Fault
from telegram_simulator.model import Channel, Counters, Message, Poll, Service, User
from telegram_simulator.preview import PreviewPages
from telegram_simulator.server import Simulator
from telegram_simulator.world import World
from tests.integration.ingest.test_preview_then_account import NEWS, Scene, now, photo

pytestmark = pytest.mark.integration

DAY = timedelta(days=1)
OURS = UUID(SYSTEM_TENANT)
BEGAN = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=20)


def made() -> World:
    """A channel of nine posts: plain ones, an album, a poll, a service message. Each call makes the same."""
    world = World()
    world.add_user(User(5001, 77, "Reader", phone="79990000001"))
    news = world.add_channel(Channel(NEWS, 11, "News", "the_news", BEGAN, subscribers=12_345))
    for number in range(1, 10):
        message = Message(number, BEGAN + timedelta(hours=number), f"Post {number} 🔥\n\nsecond  line")
        message.counters = Counters(views=12_000 + number * 37)
        match number:
            case 3 | 4 | 5:
                message.file, message.grouped_id = photo(number), 77
                message.text = "the album" if number == 4 else ""
            case 6:
                message.text, message.poll = "", Poll(6, "Well?", ("yes", "no"))
            case 7:
                message.text, message.service = "", Service("photo")
        world.post(news, message)
    return world


def change(web: PreviewPages, shown: Channel, number: int, words: str) -> None:
    """On the web alone, and long ago."""
    web.world.edit(shown, number, words).edited = BEGAN + timedelta(hours=12)


class Two(Scene):
    """A channel that an account reads, and a web that may show another world than the account is told of."""

    def __init__(self, database: AsyncEngine, redis: Redis, sim: Simulator, web: PreviewPages) -> None:
        super().__init__(database, redis, sim, web)
        site = open_previews(Settings(preview_hosts=web.address, preview_pause_sec=0), clock=now)
        assert site is not None
        self.witnesses = Witnesses(database)
        self.shown = web.world.channels[NEWS]
        self.comparison = Comparison(
            self.channels, self.witnesses, self.audits, self.pool, Previews(site), again=DAY, clock=now
        )

    async def compare(self) -> list[Difference]:
        return await self.comparison.compare(await self.channel())

    async def kept(self) -> dict[int, Disagreement]:
        return {one.message_id: one for one in await self.witnesses.of_channel(OURS, NEWS, limit=100)}


@pytest.fixture
async def two(database: AsyncEngine, redis: Redis) -> AsyncIterator[Two]:
    async with Simulator(made()) as sim, PreviewPages(made()) as web:
        scene = Two(database, redis, sim, web)
        await scene.store.add(telegram_user_id=5001, name="Reader", session=sim.session())
        try:
            await scene.add()
            await scene.visit()
            yield scene
        finally:
            await scene.pool.close()


async def test_two_who_tell_the_same_differ_in_nothing(two: Two) -> None:
    for message in two.shown.messages.values():
        message.counters = Counters(views=15_000)  # rounded figures, at another moment
    assert await two.comparison.step()
    assert await two.kept() == {}
    assert two.web.asked
    asked = len(two.web.asked)
    assert not await two.comparison.step()  # its turn is over for a day
    assert len(two.web.asked) == asked


async def test_other_words_and_missing_posts_are_kept_with_both_texts(two: Two) -> None:
    change(two.web, two.shown, 2, "What the web says")
    change(two.web, two.shown, 4, "another caption")
    two.web.world.delete(two.shown, [8])
    two.world.delete(two.news, [9])
    new = await two.compare()
    assert {one.message_id: one.kind for one in new if one.message_id not in {3, 4, 5}} == {
        2: Differs.TEXT,
        8: Differs.ONLY_ACCOUNT,
        9: Differs.ONLY_PREVIEW,
    }
    assert {3, 4, 5} & {one.message_id for one in new}, "the album's caption is another one"
    kept = await two.kept()
    assert (kept[2].account_text, kept[2].preview_text) == ("Post 2 🔥\n\nsecond  line", "What the web says")
    assert (kept[8].preview_text, kept[9].account_text) == (None, None)
    assert (await two.stored())[2].startswith("Post 2"), "what is stored stays as it was told"
    assert 8 in await two.stored()
    assert await two.compare() == [], "the same difference is told once"
    assert (await two.kept()).keys() == kept.keys()


async def test_nothing_is_resolved_by_itself(two: Two) -> None:
    change(two.web, two.shown, 2, "What the web says")
    await two.compare()
    change(two.web, two.shown, 2, "Post 2 🔥\n\nsecond  line")
    assert await two.compare() == []
    kept = (await two.kept())[2]
    assert kept.agreed_at is not None
    assert (kept.preview_text, kept.seen_at) == ("What the web says", None)
    assert await two.witnesses.unseen() == 1
    assert await two.witnesses.mark_seen(OURS, NEWS, kept.id, now())
    assert not await two.witnesses.mark_seen(OURS, NEWS + 1, kept.id, now())
    assert await two.witnesses.unseen() == 0
    assert (await two.kept())[2].seen_at is not None
    (theirs,) = await two.witnesses.of_channel(uuid4(), NEWS, limit=1)
    assert theirs.seen_at is None, "another tenant sees for itself"


async def test_a_fresh_edit_is_not_compared(two: Two) -> None:
    two.world.edit(two.news, 2, "changed just now")
    assert await two.compare() == []


@pytest.mark.parametrize("action", ["web_soft_ban", "web_no_preview", "web_challenge"])
async def test_a_web_that_does_not_like_us_proves_nothing(two: Two, action: str) -> None:
    two.web.world.delete(two.shown, [8])
    two.web.faults.add(Fault(action))
    with pytest.raises(SourceError):
        await two.compare()
    assert await two.kept() == {}
    assert await two.comparison.step() in {True, False}  # no error leaves the job
    assert await two.kept() == {}
