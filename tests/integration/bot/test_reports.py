"""Digests with their buttons, from the wish to the correction; trends; advice."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from telegram_assistant.bot.alerts import BotWay
from telegram_assistant.domain.digests import Digest, Language, Schedule, Way, Wish
from telegram_assistant.jobs.digests import DigestJob, open_digest_maker
from telegram_assistant.language.lexemes import Lexicon
from telegram_assistant.services.services import Services
from telegram_assistant.stores.postgres.digests import DigestIssues, Digests
from telegram_assistant.stores.postgres.interests import Interests
from telegram_assistant.stores.postgres.watched_channels import Requests
from tests.integration.bot.bot_api import BotApi, Person
from tests.integration.search.archive import POSTED, SPORT

pytestmark = pytest.mark.integration

Town = Any  # of a conftest.py, which cannot be imported
OIL = "Oil became dearer on Monday after the tanker was stopped at the <strait>."


class Press:
    """Makes issues of a digest and brings them to the bot."""

    def __init__(self, services: Services, lexicon: Lexicon, bot: Any) -> None:
        self.now = POSTED - timedelta(hours=1)
        self.digests, self.issues = Digests(services.database), DigestIssues(services.database)
        self.job = DigestJob(
            self.digests,
            self.issues,
            open_digest_maker(services.settings, services.database, services.clock, lexicon=lexicon),
            [BotWay(bot.role.delivery)],
            clock=lambda: self.now,
            page=lambda _: "https://news.test/issue",
        )

    async def ask(self, person: Any, **wish: Any) -> Digest:
        wanted = Wish(**{"name": "<Morning>", "schedule": Schedule(minute=0, zone="UTC"), "ways": (Way.BOT,), **wish})
        next_at = POSTED.replace(hour=0) + timedelta(days=1)
        made = await self.digests.add(person.tenant_id, person.user_id, wanted, next_at=next_at)
        found = await self.digests.get(person.tenant_id, person.user_id, made)
        assert found is not None
        return found

    async def day(self) -> str | None:
        self.now += timedelta(days=1)
        return await self.job(self.now)


@pytest.fixture
def press(services: Services, lexicon: Lexicon, bot: Any) -> Press:
    return Press(services, lexicon, bot)


async def test_a_digest_is_begun_and_switched_by_buttons(ann: Person, town: Town, press: Press) -> None:
    """SPEC 8: 12:00 Europe/Moscow every day is the default."""
    offered = await ann.asks("/digest")
    assert "You have no digest yet" in offered.text
    await ann.toast(await ann.presses(offered, "Yes, every day"))
    assert "12:00 MSK" in offered.text
    (digest,) = await press.digests.of_user(town.admin.tenant_id, town.admin.user_id)
    assert (digest.wish.schedule, digest.wish.ways) == (Schedule(), (Way.WEB, Way.BOT))
    shown = await ann.asks("/digest")
    assert "Daily: the first issue comes" in shown.text
    assert "not be sent here" in await ann.toast(await ann.presses(shown, "Do not send"))
    (digest,) = await press.digests.of_user(town.admin.tenant_id, town.admin.user_id)
    assert (digest.wish.ways, digest.wish.enabled) == ((Way.WEB,), True)
    again = await ann.asks("/digest")
    assert "will be sent here" in await ann.toast(await ann.presses(again, "Send to Telegram"))
    (digest,) = await press.digests.of_user(town.admin.tenant_id, town.admin.user_id)
    assert digest.wish.ways == (Way.WEB, Way.BOT)


async def test_an_issue_is_brought_with_its_receipts_and_corrected_later(
    ann: Person, town: Town, press: Press, api: BotApi
) -> None:
    post = await town.archive.post(1, OIL)
    await town.archive.post(2, "The cup final was won by the team of the harbour after extra time.", channel=SPORT)
    await press.ask(town.admin, language=Language.EN)
    assert await press.day() == "1 due, 1 built, 1 sent"
    brought = await ann.hears()
    assert brought.text.startswith("<Morning>\n2026-11-01 00:00 UTC \u2013 2026-11-02 00:00 UTC")
    assert "stopped at the <strait" in brought.text
    assert set(brought.links) == {"https://t.me/daily_news/1", "https://t.me/sport/2"}
    assert "Read: 2 posts in 2 channels" in brought.text
    assert brought.button("Open")["url"] == "https://news.test/issue"
    # Nothing more is due, and nothing is sent twice.
    assert await press.job(press.now) is None
    await town.archive.run("UPDATE posts SET content_hash = 'new', text = 'Nothing happened.' WHERE id = :id", id=post)
    shown = await ann.asks("/digest")
    assert "Corrections" in shown.text
    assert "Daily_News: the post was edited" in shown.text
    assert len(api.spoken[ann.id]) == 2


async def test_issues_are_turned_in_place(ann: Person, town: Town, press: Press) -> None:
    for day in range(3):
        await town.archive.post(day + 1, f"Story number {day} of the tanker {day} at the harbour {day}.", when=day)
    await press.ask(town.admin, ways=(Way.WEB,))
    for _ in range(3):
        await press.day()
    shown = await ann.asks("/digest")
    assert "Story number 2" in shown.text
    assert not shown.has_button("Later")
    for number in (1, 0):
        await ann.toast(await ann.presses(shown, "Earlier"))
        assert f"Story number {number}" in shown.text
    assert not shown.has_button("Earlier")
    await ann.toast(await ann.presses(shown, "Later"))
    assert "Story number 1" in shown.text


async def test_what_it_would_say_now(ann: Person, town: Town, press: Press, services: Services) -> None:
    await town.archive.post(1, OIL)
    await town.archive.run("UPDATE posts SET posted_at = :now", now=services.clock() - timedelta(hours=2))
    await town.archive.run("UPDATE search_documents SET posted_at = :now", now=services.clock() - timedelta(hours=2))
    await press.ask(town.admin)
    shown = await ann.asks("/digest")
    await ann.toast(await ann.presses(shown, "What would it say now?"))
    assert "stopped at the <strait" in (await ann.hears()).text


async def test_several_digests_are_chosen_from(ann: Person, town: Town, press: Press) -> None:
    await press.ask(town.admin, name="Morning")
    await press.ask(town.admin, name="Evening")
    chosen = await ann.asks("/digest")
    assert "Which digest?" in chosen.text
    await ann.toast(await ann.presses(chosen, "Evening"))
    assert "Evening: the first issue comes" in chosen.text


async def test_anothers_digest_is_not_there(ann: Person, town: Town, press: Press) -> None:
    theirs = await press.ask(town.member)
    menu = await ann.asks("/menu")
    for do in ("show", "now", "on", "off"):
        assert "too old" in await ann.toast(await ann.sends_data(menu, f"d:{do}:{theirs.id}:0"))
    kept = await press.digests.get(town.member.tenant_id, town.member.user_id, theirs.id)
    assert kept == theirs


async def test_a_reader_who_cannot_be_reached_is_told_on_the_page(town: Town, press: Press, api: BotApi) -> None:
    await town.archive.post(1, OIL)
    digest = await press.ask(town.admin)
    assert await press.day() == "1 due, 1 built, 0 sent"
    (issue,) = await press.issues.page(town.admin.tenant_id, digest.id, limit=1)
    (sending,) = await press.issues.sendings(town.admin.tenant_id, [issue.id])
    assert "not linked" in sending.error
    assert api.spoken == {}


async def test_who_blocked_the_bot_is_told_on_the_page(
    town: Town, press: Press, api: BotApi, ann: Person, bot: Any
) -> None:
    await town.archive.post(1, OIL)
    digest = await press.ask(town.admin)
    api.blocked.add(ann.id)
    await press.day()
    (issue,) = await press.issues.page(town.admin.tenant_id, digest.id, limit=1)
    (sending,) = await press.issues.sendings(town.admin.tenant_id, [issue.id])
    assert "blocked the bot" in sending.error
    assert bot.role.delivery.messenger


async def test_a_digest_goes_in_as_many_messages_as_it_takes(
    ann: Person, town: Town, press: Press, api: BotApi
) -> None:
    for number in range(1, 31):
        word = f"tanker{number}"
        long = f"{word} harbour{number} with {word} sailed{number} on {number} "
        await town.archive.post(number, f"{(long * 4).strip()} captain{number} of {word}. " * 2)
    await press.ask(town.admin, most=30)
    await press.day()
    pieces = api.spoken[ann.id]
    assert len(pieces) > 1
    assert pieces[-1].buttons
    assert not any(one.buttons for one in pieces[:-1])
    assert {f"https://t.me/daily_news/{number}" for number in range(1, 31)} <= {
        link for one in pieces for link in one.links
    }


async def test_trends(ann: Person, bob: Person, town: Town, services: Services, bot: Any) -> None:
    assert bot.role.working
    assert "Nothing rises" in (await ann.asks("/trends")).text
    now = services.clock()
    post = await town.archive.post(1, OIL)
    trend = uuid4()
    await town.archive.run(
        "INSERT INTO trends (id, tenant_id, kind, key, subjects, score, mentions, expected, channels, counts,"
        " baseline_days, window_start, window_end, first_at, last_at, found_at) VALUES (:id, :tenant, 'entity',"
        """ '<Strait>', '[{"kind": "entity", "key": "<Strait>", "score": 3.5}]', 3.5, 12, 2.2, 4, '{1,2}', 20,"""
        " :start, :now, :start, :now, :now)",
        id=trend,
        tenant=town.admin.tenant_id,
        start=now - timedelta(hours=5),
        now=now - timedelta(minutes=1),
    )
    await town.archive.run(
        "INSERT INTO trend_posts (trend_id, post_id, tenant_id) VALUES (:id, :post, :tenant)",
        id=trend,
        post=post,
        tenant=town.admin.tenant_id,
    )
    shown = await ann.asks("/trends")
    assert "1. <Strait>: 12 mentions instead of about 2, 4 channels" in shown.text
    assert "first: Daily_News" in shown.text
    assert shown.links == ["https://t.me/daily_news/1"]
    assert "ничего не выделяется" in (await bob.asks("/trends")).text


async def test_advice(ann: Person, town: Town, services: Services, bot: Any) -> None:
    assert bot.role.working
    assert "do not know your interests yet" in (await ann.asks("/recommend")).text
    now = services.clock()
    await town.archive.post(1, OIL, tags=("oil",))
    for table in ("posts", "search_documents"):
        await town.archive.run(f"UPDATE {table} SET posted_at = :at", at=now - timedelta(hours=1))  # noqa: S608 - ours
    admin = town.admin
    await Interests(services.database).choose(admin.tenant_id, admin.user_id, "oil", 1.0, now=now)
    shown = await ann.asks("/recommend")
    assert "For you" in shown.text
    assert "stopped at the <strait" in shown.text
    assert "https://t.me/daily_news/1" in shown.links


async def test_an_advised_channel_is_watched_at_a_press(ann: Person, town: Town, bot: Any) -> None:
    assert bot.role.working
    menu = await ann.asks("/menu")
    await ann.sends_data(menu, "a:Harbour_News")
    assert "@harbour_news will be watched" in (await ann.hears()).text
    (request,) = await Requests(town.archive.database).open()
    assert request.reference == "@harbour_news"
