"""What polling learns from the posts, when it looks again, and what may overrule it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest

from telegram_assistant.domain.polling import first_price
from telegram_assistant.ingest.polling import LEARN_FROM

pytestmark = pytest.mark.integration

START = datetime(2026, 1, 14, 9, tzinfo=UTC)  # where the clock of the newsroom begins
FIXED = 300.0

# A class of conftest.py, which cannot be imported.
Newsroom = Any


async def test_a_new_channel_is_visited_again_after_the_fixed_interval(newsroom: Newsroom) -> None:
    await newsroom.open(1, newsroom.every(10, days=1))
    await newsroom.open(2)
    polling = newsroom.polling()
    for channel_id in (1, 2):
        await newsroom.visit(channel_id, polling)
        row = await newsroom.row(channel_id)
        assert row.next_visit_at == row.planned_at == START + timedelta(seconds=300)
        assert row.plan_price is None
        assert row.appetite > 0
    known = (await newsroom.row(1)).rhythm["posts"]
    assert known == newsroom.posts[1] - 1, "the oldest is where the known time begins"
    assert (await newsroom.row(2)).rhythm["posts"] == 0


async def test_from_the_second_visit_on_the_rhythm_decides(newsroom: Newsroom) -> None:
    await newsroom.open(1, newsroom.every(3, days=20))
    await newsroom.open(2, newsroom.every(600, days=20))
    await newsroom.open(3, newsroom.every(20_000, days=50), timezone="Asia/Tokyo")
    polling = newsroom.polling()
    for channel_id in (1, 2, 3):
        await newsroom.visit(channel_id, polling)
    newsroom.now += timedelta(minutes=5)
    for channel_id in (1, 2, 3):
        await newsroom.visit(channel_id, polling)
        assert (await newsroom.row(channel_id)).plan_price == first_price(FIXED)
    waits = [await newsroom.waits(channel_id) for channel_id in (1, 2, 3)]
    assert 5 <= waits[0] < waits[1] < waits[2] <= 3600


async def test_the_bound_holds_for_who_never_posts(newsroom: Newsroom) -> None:
    await newsroom.open(1, [START - timedelta(days=50)])
    polling = newsroom.polling()
    for _ in range(3):
        await newsroom.visit(1, polling)
        newsroom.now += timedelta(hours=1)
    newsroom.now -= timedelta(hours=1)
    assert await newsroom.waits(1) == 3600


async def test_a_visit_learns_what_came_since_the_last_one_and_an_album_once(newsroom: Newsroom) -> None:
    await newsroom.open(1, newsroom.every(60, days=2))
    polling = newsroom.polling()
    await newsroom.visit(1, polling)
    before = (await newsroom.row(1)).rhythm["posts"]
    newsroom.now += timedelta(minutes=30)
    await newsroom.say(1, START + timedelta(minutes=3), START + timedelta(minutes=9))  # pushed live, say
    await newsroom.say(1, *(START + timedelta(minutes=20, seconds=item) for item in range(5)), grouped_id=77)
    await newsroom.visit(1, polling)
    learned = (await newsroom.row(1)).rhythm
    assert learned["posts"] == before + 3
    newsroom.now += timedelta(minutes=5)
    await newsroom.say(1, START + timedelta(minutes=20, seconds=9), grouped_id=77)  # one more item of the same album
    await newsroom.visit(1, polling)
    assert (await newsroom.row(1)).rhythm == learned


async def test_a_visit_that_finds_nothing_has_nothing_to_learn(newsroom: Newsroom) -> None:
    await newsroom.open(1, newsroom.every(60, days=2))
    polling = newsroom.polling()
    await newsroom.visit(1, polling)
    newsroom.now += timedelta(minutes=5)
    planned = await polling.plan(1, newsroom.now)
    assert planned is not None
    assert planned.rhythm is None
    assert await polling.plan(404, newsroom.now) is None, "it was removed meanwhile"


async def test_what_a_process_could_not_learn_before_it_died_is_learned_by_the_next(newsroom: Newsroom) -> None:
    await newsroom.open(1, newsroom.every(60, days=2))
    await newsroom.visit(1, newsroom.polling())
    before = (await newsroom.row(1)).rhythm["posts"]
    newsroom.now += timedelta(minutes=10)
    await newsroom.say(1, newsroom.now)
    await newsroom.polling().plan(1, newsroom.now)  # and here it dies
    newsroom.now += timedelta(minutes=10)
    await newsroom.say(1, newsroom.now)
    await newsroom.visit(1, newsroom.polling())
    assert (await newsroom.row(1)).rhythm["posts"] == before + 2


async def test_after_a_backfill_the_rhythm_is_learned_from_all_of_it(newsroom: Newsroom) -> None:
    await newsroom.open(1, newsroom.every(60, days=1))
    polling = newsroom.polling()
    await newsroom.visit(1, polling)
    short = await newsroom.row(1)
    await newsroom.say(1, *newsroom.every(60, days=90, until=START - timedelta(days=1)))
    await newsroom.execute("UPDATE channels SET history_from = now()")  # still under way
    newsroom.now += timedelta(minutes=5)
    await newsroom.visit(1, polling)
    assert (await newsroom.row(1)).rhythm == short.rhythm, "holes would look like silence"
    await newsroom.execute("UPDATE channels SET history_from = NULL")
    newsroom.now += timedelta(minutes=5)
    await newsroom.visit(1, polling)
    long = await newsroom.row(1)
    assert long.rhythm["posts"] > 20 * short.rhythm["posts"]
    assert long.rhythm_since == newsroom.now - LEARN_FROM
    newsroom.now += timedelta(hours=1)
    await newsroom.visit(1, polling)
    assert (await newsroom.row(1)).rhythm == long.rhythm, "once is enough"


async def test_a_rhythm_of_another_version_is_learned_anew(newsroom: Newsroom) -> None:
    await newsroom.open(1, newsroom.every(60, days=3))
    polling = newsroom.polling()
    await newsroom.visit(1, polling)
    learned = (await newsroom.row(1)).rhythm
    await newsroom.execute("""UPDATE channels SET rhythm = '{"last": 1768381200, "tempo": 3}'""")
    await newsroom.visit(1, polling)
    assert (await newsroom.row(1)).rhythm == learned


async def test_priority_brings_looks_forward(newsroom: Newsroom) -> None:
    posts = newsroom.every(20, days=10)
    await newsroom.open(1, posts)
    await newsroom.open(2, posts, priority=10)
    polling = newsroom.polling()
    for _ in range(2):
        for channel_id in (1, 2):
            await newsroom.visit(channel_id, polling)
        newsroom.now += timedelta(minutes=5)
    newsroom.now -= timedelta(minutes=5)
    assert await newsroom.waits(1) / await newsroom.waits(2) == pytest.approx(2, rel=0.25)


# ---- what else decides


async def test_who_asks_during_a_visit_is_not_overruled_by_the_plan(newsroom: Newsroom) -> None:
    await newsroom.open(1, newsroom.every(60, days=3), next_visit_at=START)
    (channel,) = await newsroom.channels.lease("process-1", limit=1, now=START, ttl=timedelta(minutes=5))
    asked = START + timedelta(seconds=2)
    await newsroom.channels.make_due(asked, channel.id)
    newsroom.now += timedelta(seconds=4)
    planned = await newsroom.polling().plan(1, newsroom.now)
    assert planned is not None
    await newsroom.channels.succeed(
        1, "process-1", now=newsroom.now, began=START, parsed=False, next_visit_at=planned.at, planned=planned
    )
    assert (await newsroom.row(1)).next_visit_at == asked


async def test_after_an_outage_what_posts_most_is_read_first(newsroom: Newsroom) -> None:
    polling = newsroom.polling()
    for channel_id, minutes in ((1, 600), (2, 5), (3, 60)):
        await newsroom.open(channel_id, newsroom.every(minutes, days=5))
        await newsroom.visit(channel_id, polling)
    await newsroom.channels.look_again(newsroom.now)
    newsroom.now += timedelta(seconds=1)
    order = []
    for _ in range(3):
        leased = await newsroom.channels.lease("process-1", limit=1, now=newsroom.now, ttl=timedelta(minutes=5))
        order += [channel.id for channel in leased]
    assert order == [2, 3, 1]


async def test_after_an_outage_channels_of_all_accounts_are_read_by_turns(newsroom: Newsroom) -> None:
    """Each account may be asked about once a second: what stands behind all of another one would wait."""
    for account, ids in (("one", range(1, 11)), ("two", range(11, 21))):
        for channel_id in ids:
            await newsroom.open(channel_id, next_visit_at=START + timedelta(hours=1))
        await newsroom.execute(
            "UPDATE channels SET access_hash = jsonb_build_object(CAST(:account AS text), 5) WHERE id = ANY(:ids)",
            account=account,
            ids=list(ids),
        )
    await newsroom.channels.look_again(newsroom.now, account="one")
    newsroom.now += timedelta(milliseconds=30)
    await newsroom.channels.look_again(newsroom.now, account="two")
    newsroom.now += timedelta(seconds=30)
    order = []
    for _ in range(20):
        leased = await newsroom.channels.lease("process-1", limit=1, now=newsroom.now, ttl=timedelta(minutes=5))
        order += [channel.id for channel in leased]
    assert order == [number for pair in zip(range(1, 11), range(11, 21), strict=True) for number in pair]


async def test_a_tick_leaves_plans_alone_and_makes_due_who_has_none(newsroom: Newsroom) -> None:
    polling = newsroom.polling()
    await newsroom.open(1, newsroom.every(60, days=3))
    await newsroom.visit(1, polling)
    plan = (await newsroom.row(1)).next_visit_at
    await newsroom.open(2)
    await newsroom.open(3, next_visit_at=START + timedelta(minutes=9), failures=2)
    newsroom.now += timedelta(minutes=2)
    assert await newsroom.tick(polling) == 1
    assert [(await newsroom.row(number)).next_visit_at for number in (1, 2)] == [plan, newsroom.now]
    newsroom.now = plan
    assert await newsroom.tick(polling) == 2, "its time has come"
    leased = await newsroom.channels.lease("process-1", limit=9, now=newsroom.now, ttl=timedelta(minutes=5))
    assert {channel.id for channel in leased} == {1, 2}


async def test_without_the_feature_every_channel_is_due_on_every_tick(newsroom: Newsroom) -> None:
    """Also when it was switched off just now; who failed or must wait keeps waiting."""
    await newsroom.open(1, newsroom.every(60, days=3))
    await newsroom.visit(1, newsroom.polling())
    await newsroom.open(2)
    until = START + timedelta(minutes=9)
    await newsroom.open(3, next_visit_at=until, failures=2)
    newsroom.now += timedelta(seconds=10)
    assert await newsroom.tick(None) == 2
    assert (await newsroom.row(3)).next_visit_at == until
    await newsroom.visit(1, None)
    row = await newsroom.row(1)
    assert (row.next_visit_at, row.planned_at, row.plan_price) == (None, None, None)
    newsroom.now += timedelta(minutes=5)
    assert await newsroom.tick(None) == 2
    assert (await newsroom.row(1)).next_visit_at == newsroom.now


async def test_few_channels_that_are_due_are_no_trouble(newsroom: Newsroom) -> None:
    polling = newsroom.polling()
    for channel_id in range(1, 6):
        await newsroom.open(channel_id, newsroom.every(600, days=9))
        await newsroom.visit(channel_id, polling)
    newsroom.now += timedelta(seconds=30)
    scheduler = newsroom.scheduler(polling)
    assert await scheduler.lock.hold()
    assert await scheduler.tick() == 0
    assert (await scheduler.report())["status"] == "ok"
    assert (await scheduler.report_parser())["status"] == "ok"


async def test_a_channel_that_was_given_up_is_named_with_its_error(newsroom: Newsroom) -> None:
    for channel_id in range(1, 6):
        await newsroom.open(channel_id)
        await newsroom.visit(channel_id, None)
    await newsroom.execute("UPDATE channels SET status = 'dead', last_error = 'it is private now' WHERE id = 2")
    later = count(0, 10**9)  # what was missed before a start is no matter any more
    scheduler = newsroom.scheduler(None, ticks=lambda: float(next(later)))
    report = await scheduler.report_parser()
    assert report["status"] == "degraded"
    assert "given up: 1 (channel 2: it is private now" in report["error"]


async def test_unusual_silence_is_looked_at_before_the_plan(newsroom: Newsroom) -> None:
    await newsroom.open(1, newsroom.every(5, days=5))
    polling = newsroom.polling()
    await newsroom.visit(1, polling)
    newsroom.now += timedelta(hours=2)
    await newsroom.execute("UPDATE channels SET next_visit_at = :at, planned_at = :at", at=START + timedelta(hours=3))
    await newsroom.tick(polling)
    assert (await newsroom.row(1)).next_visit_at == newsroom.now
