"""`crawl_trigger` and `enrichment` (SPEC 4.7, 4.8) against a real site on loopback (LESSONS 23)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random
from typing import Any
from uuid import UUID

import pytest

from telegram_assistant.bus.stage import Done, Outcome
from telegram_assistant.crawl.budget import BudgetLimits, CrawlBudget
from telegram_assistant.crawl.rules import CrawlRules, load_rules
from telegram_assistant.crawl.rules import Interests as Wishes
from telegram_assistant.domain.events import PostCrawl, PostEnriched, PostTagged, Trigger
from telegram_assistant.domain.post import Post
from telegram_assistant.domain.text import Link
from telegram_assistant.errors import Retry, Skip
from telegram_assistant.names import POSTS_PARSED
from telegram_assistant.stages.crawling import Crawling, enrich_posts, trigger_crawls
from telegram_assistant.stages.tagging import Tagging, tag_posts
from telegram_assistant.stores.postgres.interests import Interests
from telegram_assistant.stores.postgres.pages import Page
from telegram_assistant.wiring.runtime import utc_now
from tests.integration.stages.desk import CHANNEL, FOOTBALL, SYSTEM, WEATHER, Desk, events_of, post
from tests.integration.stages.site import article

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="session")]

Web = Any  # of conftest.py, which cannot be imported
READER, STRANGER = UUID(int=21), UUID(int=22)
UNTAGGED = 10_000  # characters below which no model is asked


def linked(number: int, *urls: str, words: str = WEATHER) -> Post:
    """Behind words of the text, as Telegram's entities have them."""
    return post(number, words, links=tuple(Link(url, "here", hidden=True) for url in urls))


class Away:
    """A reader whose network is down."""

    async def read(self, url: str, known: Page | None = None) -> Page:
        raise Retry(f"{url} does not answer, {known or 'never read'}")

    async def close(self) -> None:
        pass


@dataclass
class Line:
    """Both stages, one behind the other."""

    desk: Desk
    web: Web
    tagging: Tagging
    limits: BudgetLimits = BudgetLimits(pause_seconds=0)  # noqa: RUF009 - frozen

    async def tagged(self) -> list[PostTagged]:
        return events_of(await tag_posts(await self.desk.told(POSTS_PARSED), tagging=self.tagging))

    async def trigger(self, events: Sequence[PostTagged], rules: CrawlRules | None = None) -> list[Outcome]:
        return await trigger_crawls(
            events,
            rules=rules or load_rules(),
            stored_posts=self.desk.stored_posts,
            pages=self.desk.pages,
            clock=utc_now,
            interests=Interests(self.desk.database),
            allow=self.web.allow,
        )

    def crawling(self, **fields: Any) -> Crawling:
        budget = CrawlBudget(self.desk.budgets, self.desk.redis, limits=self.limits, clock=utc_now)
        made = Crawling(self.web.reader, self.desk.pages, budget, utc_now)
        return replace(made, **fields)

    async def enrich(self, events: Sequence[PostCrawl], **fields: Any) -> list[Outcome]:
        return await enrich_posts(events, crawling=self.crawling(**fields))

    async def through(self, *posts: Post, **fields: Any) -> list[Outcome]:
        """Save them, and follow their links."""
        await self.desk.save(*posts)
        triggered = events_of(await self.trigger(await self.tagged()))
        return await self.enrich([event for event in triggered if isinstance(event, PostCrawl)], **fields)

    async def pages_of(self, one: Post) -> list[str]:
        return [page.url for page in (await self.desk.pages.of_posts([one.id])).get(one.id, [])]


@pytest.fixture
def line(desk: Desk, web: Web, tagging: Tagging) -> Line:
    return Line(desk, web, replace(tagging, min_chars=UNTAGGED))


async def test_links_are_read_for_those_whom_they_interest(line: Line) -> None:
    """Only the wishes of people who see the channel count, and not what they said they do not want."""
    desk, rules = line.desk, replace(load_rules(), interests=Wishes.ONLY)
    await desk.save(linked(1, line.web.site.url("/news/1")))
    (tagged,) = await line.tagged()
    tagged = replace(tagged, topics=("weather",))

    async def is_read() -> bool:
        return isinstance(events_of(await line.trigger([tagged], rules))[0], PostCrawl)

    for user in (READER, STRANGER):
        statement = "INSERT INTO users (id, tenant_id, name, role) VALUES (:id, :tenant, 'x', 'member')"
        await desk.change(statement, id=user, tenant=SYSTEM)
    await desk.change(
        "INSERT INTO subscriptions (tenant_id, user_id, channel_id) VALUES (:tenant, :user, :channel)",
        tenant=SYSTEM,
        user=READER,
        channel=CHANNEL,
    )
    wishes = Interests(desk.database)
    await wishes.choose(SYSTEM, STRANGER, "weather", 1.0, now=utc_now())
    assert not await is_read()
    await wishes.choose(SYSTEM, READER, "weather", 0.0, now=utc_now())
    assert not await is_read()
    await wishes.choose(SYSTEM, READER, "weather", 0.5, now=utc_now())
    assert await is_read()


async def test_rules_decide_link_by_link_and_say_why(line: Line) -> None:
    page = line.web.site.url("/news/1")
    urls = [page, "https://t.me/durov/1", "https://youtu.be/x", "https://a.example/x.pdf", "https://a.example/"]
    urls += ["http://127.0.0.1:22/", "http://169.254.169.254/latest/meta-data"]
    await line.desk.save(linked(1, *urls), post(2, WEATHER), linked(3, "https://t.me/durov/1"))
    some, none, useless = await line.trigger(await line.tagged())
    (crawl,) = events_of([some])
    assert isinstance(crawl, PostCrawl)
    assert crawl.links == (page,)
    assert isinstance(some, Done)
    for reason in ("leads into Telegram", "social network", "is no page", "no article", "port 22", "link-local"):
        assert reason in some.note, reason
    for outcome in (none, useless):
        (enriched,) = events_of([outcome])
        assert isinstance(enriched, PostEnriched)
        assert enriched.pages == ()
    assert isinstance(none, Done)
    assert none.note == "no links to read"
    assert line.web.site.asked == []


async def test_users_rules_are_obeyed(line: Line) -> None:
    await line.desk.save(linked(1, line.web.site.url("/news/1")))
    rules = replace(load_rules(), topics=frozenset({"sport"}))
    (enriched,) = events_of(await line.trigger(await line.tagged(), rules))
    assert isinstance(enriched, PostEnriched)


async def test_lesson_23_a_link_of_the_message_is_followed_and_only_text_is_kept(line: Line) -> None:
    site, one = line.web.site, linked(1, line.web.site.url("/news/1?utm_source=tg"))
    site.pages["/news/1"] = article("Погода <на> неделю", FOOTBALL)
    (outcome,) = await line.through(one)
    assert site.asked == ["/news/1"]
    (enriched,) = events_of([outcome])
    assert enriched.pages == (site.url("/news/1"),)
    assert isinstance(outcome, Done)
    assert (outcome.again, outcome.note) == (None, f"{site.url('/news/1')}: read")
    (page,) = (await line.desk.pages.of_posts([one.id]))[one.id]
    assert FOOTBALL[:50] in page.text
    (row,) = await line.desk.rows("SELECT to_jsonb(w)::text AS everything FROM web_pages w")
    for markup in ("<p", "<script", "<article", "onerror", "color: red", "alert("):
        assert markup not in row.everything


async def test_a_page_of_two_posts_is_read_once_even_at_the_same_time(line: Line) -> None:
    site = line.web.site
    site.pages["/news/1"] = article("Погода", WEATHER)
    posts = [linked(number, site.url("/news/1"), site.url("/news/1#top")) for number in (1, 2, 3)]
    outcomes = await line.through(*posts)
    assert [event.pages for event in events_of(outcomes)] == [(site.url("/news/1"),)] * 3
    later = linked(4, site.url("/news/1"))
    await line.through(later)
    assert site.asked == ["/news/1"]
    assert [await line.pages_of(one) for one in (*posts, later)] == [[site.url("/news/1")]] * 4
    assert len(await line.desk.rows("SELECT 1 FROM web_pages")) == 1


async def test_a_page_is_asked_for_anew_after_a_day_and_304_keeps_what_is_there(line: Line) -> None:
    site = line.web.site
    site.pages["/news/1"], site.etags["/news/1"] = article("Погода", WEATHER), '"v1"'
    await line.through(linked(1, site.url("/news/1")))
    before = await line.desk.pages.get(site.url("/news/1"))
    assert before is not None

    def tomorrow() -> Any:
        return utc_now() + timedelta(hours=25)

    (outcome,) = await line.through(linked(2, site.url("/news/1")), clock=tomorrow)
    assert site.asked == ["/news/1"] * 2
    assert isinstance(outcome, Done)
    assert outcome.again is None
    after = await line.desk.pages.get(site.url("/news/1"))
    assert after is not None
    assert (after.text, after.etag) == (before.text, '"v1"')
    assert after.fetched_at > before.fetched_at
    site.pages["/news/1"], site.etags["/news/1"] = article("Футбол", FOOTBALL), '"v2"'
    await line.through(linked(3, site.url("/news/1")), clock=tomorrow)
    changed = await line.desk.pages.get(site.url("/news/1"))
    assert changed is not None
    assert FOOTBALL[:50] in changed.text
    assert changed.content_hash != before.content_hash


async def test_a_page_that_is_away_holds_nobody_up_and_the_post_comes_again_with_it(line: Line) -> None:
    """LESSONS 19: what could not be read now is not done with nothing."""
    site = line.web.site
    site.pages |= {"/news/1": article("Погода", WEATHER), "/news/2": article("Футбол", FOOTBALL)}
    site.status["/news/1"] = 503
    one = linked(1, site.url("/news/1"), site.url("/news/2"))
    await line.desk.save(one)
    crawls = events_of(await line.trigger(await line.tagged()))
    (outcome,) = await line.enrich(crawls)
    assert isinstance(outcome, Done)
    assert isinstance(outcome.again, Retry)
    assert "503" in outcome.note
    (enriched,) = events_of([outcome])
    assert enriched.pages == (site.url("/news/2"),)
    del site.status["/news/1"]
    (again,) = await line.enrich(crawls)
    assert isinstance(again, Done)
    assert again.again is None
    (whole,) = events_of([again])
    assert whole.pages == (site.url("/news/1"), site.url("/news/2"))
    assert site.asked.count("/news/2") == 1
    assert await line.pages_of(one) == [site.url("/news/1"), site.url("/news/2")]


async def test_a_page_that_was_read_stays_with_the_post_while_its_site_is_away(line: Line) -> None:
    site, one = line.web.site, linked(1, line.web.site.url("/news/1"))
    site.pages["/news/1"] = article("Погода", WEATHER)
    await line.desk.save(one)
    crawls = events_of(await line.trigger(await line.tagged()))
    await line.enrich(crawls)
    (outcome,) = await line.enrich(crawls, reader=Away(), clock=lambda: utc_now() + timedelta(hours=25))
    assert isinstance(outcome, Done)
    assert isinstance(outcome.again, Retry)
    assert await line.pages_of(one) == [site.url("/news/1")]


async def test_what_robots_may_not_read_or_is_not_there_is_said_once_a_day(line: Line) -> None:
    site = line.web.site
    secret, gone = site.url("/private/1"), site.url("/gone")
    (outcome,) = await line.through(linked(1, secret, gone))
    assert isinstance(outcome, Done)
    assert "robots.txt of 127.0.0.1 does not allow it" in outcome.note
    assert "404" in outcome.note
    assert outcome.again is None
    assert events_of([outcome])[0].pages == ()
    (again,) = await line.through(linked(2, secret, gone))
    assert isinstance(again, Done)
    assert again.note == outcome.note
    assert site.asked == ["/gone"]
    problems = await line.desk.rows("SELECT problem, text FROM web_pages ORDER BY url")
    assert ["404" in problems[0].problem, "robots" in problems[1].problem] == [True, True]
    assert [row.text for row in problems] == ["", ""]


async def test_an_edit_that_keeps_the_link_reads_nothing_anew_and_one_that_drops_it_forgets_the_page(
    line: Line,
) -> None:
    """G5."""
    site = line.web.site
    site.pages |= {"/news/1": article("Погода", WEATHER), "/news/2": article("Футбол", FOOTBALL)}
    one = linked(1, site.url("/news/1"))
    await line.through(one)
    (outcome,) = await line.through(linked(1, site.url("/news/1"), words=FOOTBALL))
    assert events_of([outcome])[0].pages == (site.url("/news/1"),)
    assert site.asked == ["/news/1"]
    await line.through(linked(1, site.url("/news/2"), words=WEATHER + "!"))
    assert await line.pages_of(one) == [site.url("/news/2")]
    await line.through(post(1, "Без ссылок"))
    assert await line.pages_of(one) == []


async def test_a_stale_event_changes_nothing(line: Line) -> None:
    site = line.web.site
    site.pages |= {"/news/1": article("Погода", WEATHER), "/news/2": article("Футбол", FOOTBALL)}
    one = linked(1, site.url("/news/1"))
    await line.desk.save(one)
    old_tags = await line.tagged()
    old_crawl = events_of(await line.trigger(old_tags))
    await line.through(linked(1, site.url("/news/2"), words=FOOTBALL))
    (late,) = await line.enrich(old_crawl)
    assert isinstance(late, Skip)
    assert await line.pages_of(one) == [site.url("/news/2")]
    await line.trigger([replace(old_tags[0], urls=())])
    assert await line.pages_of(one) == [site.url("/news/2")]
    await line.desk.change("DELETE FROM posts")
    (gone,) = await line.enrich(old_crawl)
    assert isinstance(gone, Skip)


async def test_words_that_vision_added_change_no_link(line: Line) -> None:
    site, one = line.web.site, linked(1, line.web.site.url("/news/1"))
    site.pages["/news/1"] = article("Погода", WEATHER)
    await line.desk.save(one)
    (tagged,) = await line.tagged()
    await line.enrich(events_of(await line.trigger([tagged])))
    (enriched,) = events_of(await line.trigger([replace(tagged, trigger=Trigger.VISION_RETAG)]))
    assert isinstance(enriched, PostEnriched)
    assert await line.pages_of(one) == [site.url("/news/1")]
    assert site.asked == ["/news/1"]


async def test_without_budget_the_page_waits_and_the_post_does_not(line: Line) -> None:
    """The wait of one link does not put off another's next attempt."""
    site = line.web.site
    site.pages["/news/1"] = article("Погода", WEATHER)
    line.limits = BudgetLimits(pause_seconds=0, per_tenant_day=1)
    (first,) = await line.through(linked(1, site.url("/news/1")))
    assert isinstance(first, Done)
    assert first.again is None
    (second,) = await line.through(linked(2, site.url("/news/2")))
    assert isinstance(second, Done)
    assert second.again is not None
    assert second.again.after is not None
    assert "1 pages of today are used up" in second.note
    assert len(events_of([second])) == 1
    line.limits = BudgetLimits(pause_seconds=0, per_tenant_day=2)
    (third,) = await line.through(linked(3, site.url("/news/3"), site.url("/news/4")), reader=Away())
    assert isinstance(third, Done)
    assert third.again is not None
    assert third.again.after is None


async def test_an_endless_address_is_left_out(line: Line) -> None:
    """G6: it would fit into no index of the tables, and the post would never get on."""
    rng = Random(1)
    endless = line.web.site.url("/" + "".join(chr(0x4E00 + rng.randrange(20_000)) for _ in range(600)))
    (outcome,) = await line.through(linked(1, endless))
    assert isinstance(outcome, Done)
    assert len(events_of([outcome])) == 1
    assert "longer than 2000 characters" in outcome.note
    assert line.web.site.asked == []
