"""Trends through the database: what rises is found once, with its first source and path; what only seems to is not."""

# ruff: noqa: RUF001 - the posts are Russian

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.trends import DAY, Kind, Subject, Window
from telegram_assistant.errors import Retry
from telegram_assistant.jobs.trends import daily_trends, emerging_trends, find_trends
from telegram_assistant.stores.postgres.trend_counts import TrendCounts
from telegram_assistant.stores.postgres.trends import FoundTrend, State, Trends
from tests.integration.search.archive import SYSTEM
from tests.integration.trends.rising import CHANNELS, DAYS, NOW, Past

pytestmark = pytest.mark.integration

ATLANTIS = Subject(Kind.ENTITY, "Атлантида")


async def stored(database: AsyncEngine, tenant: UUID = SYSTEM) -> list[FoundTrend]:
    return await Trends(database).page(tenant, since=NOW - 10 * DAY, before=NOW + 10 * DAY, limit=50)


async def test_an_ordinary_month_has_no_trends(database: AsyncEngine, past: Past) -> None:
    for back in range(3):
        assert await find_trends(database, SYSTEM, NOW - back * DAY) == await find_trends(database, SYSTEM, NOW)
    assert await stored(database) == []
    assert past.count == (DAYS + 1) * len(CHANNELS) * 3


async def test_what_rises_is_found_with_its_path(database: AsyncEngine, past: Past) -> None:
    told = await past.rise("Атлантида", CHANNELS[:7])
    saved = await find_trends(database, SYSTEM, NOW)
    [trend] = await stored(database)
    assert saved.new == (trend.id,)
    assert trend.main == ATLANTIS
    assert {one.subject for one in trend.subjects} == {ATLANTIS, Subject(Kind.PHRASE, "атлантида")}
    assert (trend.mentions, trend.channels, trend.state) == (7, 7, State.DAILY)
    assert trend.expected < 0.1
    assert trend.score > 2
    assert trend.counts[-1] == 7
    assert set(trend.counts[:-1]) == {0}
    assert trend.baseline_days == DAYS
    assert [post.post_id for post in trend.posts] == told
    assert [post.channel_id for post in trend.path] == list(CHANNELS[:7])
    assert trend.first is not None
    assert trend.first.post_id == told[0]
    assert trend.first_at == NOW - timedelta(hours=12)


async def test_posts_that_no_model_has_seen_yet_do_not_count(database: AsyncEngine, past: Past) -> None:
    """They would make today look so busy that nothing in it is remarkable."""
    for day in range(1, DAYS, 2):
        past.post(CHANNELS[day % 10], NOW - timedelta(days=day, hours=12), entities=["Псков"], tags=["псков"])
    await past.rise("Псков", CHANNELS)
    for number in range(900):
        past.post(CHANNELS[number % 10], NOW - timedelta(minutes=number + 1))
    await past.flush()
    await past.archive.run("UPDATE search_documents SET version = 0 WHERE tags = '{}'")
    await find_trends(database, SYSTEM, NOW)
    assert [trend.main.key for trend in await stored(database)] == ["Псков"]


async def test_one_channel_that_repeats_itself_is_no_trend(database: AsyncEngine, past: Past) -> None:
    for minute in range(40):
        past.post(CHANNELS[0], NOW - timedelta(minutes=minute + 1), tags=["скидки"], entities=["Лавка"])
    await past.flush()
    assert (await find_trends(database, SYSTEM, NOW)).new == ()


async def test_forwards_and_copies_of_one_post_are_no_trend(database: AsyncEngine, past: Past) -> None:
    """Long ones are known by their text, short ones by where they come from."""
    text = "вчера ночью над нашим городом пролетел большой синий шар и никто не понял откуда он взялся"
    other = f"молния {text} подписывайтесь"
    for number, channel in enumerate(CHANNELS):
        at = NOW - timedelta(hours=10) + timedelta(minutes=10 * number)
        past.post(channel, at, tags=["шар"], words=other if number % 2 else text)
        past.post(channel, at, tags=["мяч"], words="вот это да", forward=(5555, 42))
    await past.flush()
    assert (await find_trends(database, SYSTEM, NOW)).new == ()


async def test_copies_do_not_count_but_are_shown_on_the_path(database: AsyncEngine, past: Past) -> None:
    told = await past.rise("Атлантида", CHANNELS[:6])
    words = (await past.archive.rows("SELECT text FROM posts WHERE id = :id", id=told[0]))[0].text
    late = past.post(CHANNELS[8], NOW - timedelta(minutes=30), entities=["Атлантида"], words=words)
    await past.flush()
    await find_trends(database, SYSTEM, NOW)
    [trend] = await stored(database)
    assert (trend.mentions, trend.channels) == (6, 6)
    assert trend.posts[-1].post_id == late
    assert trend.posts[-1].source_id == told[0]
    assert {post.source_id for post in trend.posts[:-1]} == {None}


async def test_a_weekly_event_is_expected(database: AsyncEngine, past: Past) -> None:
    for week in range(5):
        await past.rise("Лига", CHANNELS[:7], before=timedelta(days=7 * week, hours=12))
    assert (await find_trends(database, SYSTEM, NOW)).new == ()


async def test_a_known_event_goes_on_and_is_not_new_again(database: AsyncEngine, past: Past) -> None:
    await past.rise("Атлантида", CHANNELS[:7], before=timedelta(hours=36))
    await past.rise("Атлантида", CHANNELS[2:9])
    first = await find_trends(database, SYSTEM, NOW - DAY)
    second = await find_trends(database, SYSTEM, NOW)
    assert second.new == ()
    assert second.going_on == first.new
    [trend] = await stored(database)
    assert trend.goes_on
    assert len(trend.posts) == 14
    assert trend.found_at == NOW - DAY
    assert await find_trends(database, SYSTEM, NOW) == second  # a look again changes nothing
    assert len(await stored(database)) == 1


async def test_after_a_pause_it_is_news_again(database: AsyncEngine, past: Past) -> None:
    await past.rise("Атлантида", CHANNELS[:6], before=timedelta(days=6, hours=12))
    await past.rise("Атлантида", CHANNELS[:9])
    assert len((await find_trends(database, SYSTEM, NOW - 6 * DAY)).new) == 1
    assert len((await find_trends(database, SYSTEM, NOW)).new) == 1
    assert len(await stored(database)) == 2


async def test_emerging_ones_are_seen_in_hours_and_confirmed_by_the_day(database: AsyncEngine, past: Past) -> None:
    at = NOW - timedelta(hours=9)
    await past.rise("Атлантида", CHANNELS[:7], before=timedelta(hours=11, minutes=30))
    emerging, daily = emerging_trends(database), daily_trends(database)
    assert await emerging(at - timedelta(hours=4)) == "0 new and 0 known trends of 1 tenants"
    assert await emerging(at + timedelta(hours=1)) == "0 new and 0 known trends of 1 tenants"  # three tell of it so far
    for channel in CHANNELS[4:]:
        past.post(channel, at + timedelta(minutes=5), entities=["Атлантида"])
    await past.flush()
    assert await emerging(at + timedelta(minutes=15)) == "1 new and 0 known trends of 1 tenants"
    assert [trend.state for trend in await stored(database)] == [State.EMERGING]
    assert await emerging(at + timedelta(minutes=30)) == "0 new and 1 known trends of 1 tenants"
    assert await daily(NOW) == "0 new and 1 known trends of 1 tenants"
    assert [trend.state for trend in await stored(database)] == [State.DAILY]


async def test_of_a_channel_without_a_past_nothing_counts(database: AsyncEngine, past: Past) -> None:
    """Everything in it would be new."""
    for number in range(2001, 2009):
        await past.archive.channel(number, f"new_{number}", SYSTEM)
    await past.rise("Атлантида", range(2001, 2009))
    assert (await find_trends(database, SYSTEM, NOW)).new == ()


async def test_without_any_past_nothing_is_said(database: AsyncEngine, past: Past) -> None:
    tenant = await past.archive.tenant("newcomer")
    await past.archive.channel(3001, "only", tenant)
    past.post(3001, NOW - timedelta(hours=1), tags=["новость"])
    await past.flush()
    assert (await find_trends(database, tenant, NOW)).new == ()
    assert await TrendCounts(database).channels(tenant, Window(NOW)) == ()


async def test_each_tenant_has_its_own(database: AsyncEngine, past: Past) -> None:
    """The same posts are a trend for who sees all of their channels, and none for who sees two."""
    other = await past.archive.tenant("tenant_b")
    for channel in CHANNELS[:2]:
        await past.archive.run(
            "INSERT INTO subscriptions (tenant_id, user_id, channel_id) VALUES (:tenant, :user, :channel)",
            tenant=other,
            user=past.archive.users[other],
            channel=channel,
        )
    await past.rise("Атлантида", CHANNELS[:7])
    assert await daily_trends(database)(NOW) == "1 new and 0 known trends of 2 tenants"
    [trend] = await stored(database)
    assert await stored(database, other) == []
    assert await Trends(database).get(other, trend.id) is None


async def test_one_tenant_that_fails_does_not_keep_the_others_from_theirs(database: AsyncEngine, past: Past) -> None:
    other = await past.archive.tenant("tenant_b")
    for channel in CHANNELS:
        await past.archive.run(
            "INSERT INTO subscriptions (tenant_id, user_id, channel_id) VALUES (:tenant, :user, :channel)",
            tenant=other,
            user=past.archive.users[other],
            channel=channel,
        )
    await past.rise("Атлантида", CHANNELS[:7])
    for failing, well in ((SYSTEM, other), (other, SYSTEM)):
        await past.archive.run("DELETE FROM trends")
        await past.archive.run(f"ALTER TABLE trends ADD CONSTRAINT planted CHECK (tenant_id <> '{failing}')")
        try:
            with pytest.raises(Retry, match="not for 1 of 2 tenants"):
                await daily_trends(database)(NOW)
        finally:
            await past.archive.run("ALTER TABLE trends DROP CONSTRAINT planted")
        assert len(await stored(database, well)) == 1


async def test_posts_that_are_not_seen_any_more_are_left_out(database: AsyncEngine, past: Past) -> None:
    told = await past.rise("Атлантида", CHANNELS[:7])
    await find_trends(database, SYSTEM, NOW)
    await past.archive.run("DELETE FROM subscriptions WHERE channel_id = :channel", channel=CHANNELS[0])
    await past.archive.run("UPDATE posts SET deleted_at = now() WHERE id = :id", id=told[1])
    [trend] = await stored(database)
    assert [post.post_id for post in trend.posts] == told[2:]


async def test_old_trends_are_forgotten(database: AsyncEngine, past: Past) -> None:
    await past.rise("Атлантида", CHANNELS[:7])
    await find_trends(database, SYSTEM, NOW)
    await Trends(database).forget(NOW - DAY)
    assert len(await stored(database)) == 1
    await Trends(database).forget(NOW + DAY)
    assert await stored(database) == []


KOREA = (
    "Президент Южной Кореи Юн Сок Ёль объявил о введении военного положения, сообщает агентство Ренхап.",
    "Военное положение введено в Южной Корее. Об этом объявил в обращении президент страны Юн Сок Ёль.",
    "Юн Сок Ёль ввёл военное положение: президент Южной Кореи выступил с экстренным обращением ночью.",
    "Южная Корея: президент Юн Сок Ёль вводит военное положение, парламент заблокирован военными.",
    "В Южной Корее военное положение, которое объявил президент Юн Сок Ёль. На улицах техника.",
)
FORM = "Прогноз погоды для региона {}: облачно, без осадков, ветер северный, вечером возможен туман."


async def test_an_event_without_any_tag_is_a_trend_by_its_headline(database: AsyncEngine, past: Past) -> None:
    for number, (channel, words) in enumerate(zip(CHANNELS, KOREA, strict=False)):
        past.post(channel, NOW - timedelta(hours=9, minutes=-number), words=words)
    await past.flush()
    await find_trends(database, SYSTEM, NOW)
    [trend] = await stored(database)
    assert trend.main.kind is Kind.EVENT
    assert any(words.startswith(trend.main.key) for words in KOREA), trend.main.key
    assert (trend.channels, len(trend.posts)) == (5, 5)
    assert trend.first is not None
    assert trend.first.channel_id == CHANNELS[0]


async def test_what_channels_tell_every_day_is_no_event(database: AsyncEngine, past: Past) -> None:
    for day in range(DAYS):
        for number, channel in enumerate(CHANNELS[:6]):
            past.post(channel, NOW - timedelta(days=day, hours=9, minutes=number), words=FORM.format(f"номер {number}"))
    await past.flush()
    assert (await find_trends(database, SYSTEM, NOW)).new == ()
