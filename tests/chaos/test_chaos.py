"""G1 to G3 under fire: faults in 15 % of the requests, engines restarted, every process killed at random moments.

`make chaos` is the long one; a short one runs with the other tests. CHAOS_SEED repeats a run's world and its plan
of kills (not the timing of the machine). At the end the store must equal the truth.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from time import monotonic
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table
from sqlalchemy.exc import SQLAlchemyError

from telegram_assistant.bus.streams import FIELD, decode
from telegram_assistant.domain.events import EVENTS
from telegram_assistant.domain.post import album_id, post_id
from telegram_assistant.names import ALBUMS_PARSED, POSTS_DELETED, POSTS_PARSED, stream
from telegram_assistant.stores.postgres.channels import Channels
from telegram_simulator.model import Ids

# Classes of conftest.py, which cannot be imported.
Run = Any
Begin = Callable[[Any], Awaitable[Run]]
Fixture = Callable[..., Any]

FILES_AGAIN = 45.0  # seconds


@pytest.mark.e2e
@pytest.mark.parametrize("ids", list(Ids))
async def test_a_little_chaos(begin: Begin, make_plan: Fixture, live: Fixture, end: Fixture, ids: Ids) -> None:
    seed = int(os.environ.get("CHAOS_SEED", "7"))
    plan = make_plan(
        seed=seed, ids=ids, channels=14, posts=120, kills=9, pause=(1, 5), lived=timedelta(hours=8), settle_seconds=600
    )
    await chaos(await begin(plan), live, end)


@pytest.mark.chaos
@pytest.mark.timeout(3600)  # it takes ten minutes; a busy machine is slow, not red
@pytest.mark.parametrize("ids", list(Ids))
async def test_chaos(begin: Begin, make_plan: Fixture, live: Fixture, end: Fixture, ids: Ids) -> None:
    """200 channels with 500 posts each that go on posting, two ingest processes, at least 30 kills."""
    seed = int(os.environ.get("CHAOS_SEED") or secrets.randbelow(10_000))
    scale = float(os.environ.get("CHAOS_SCALE", "1"))
    plan = make_plan(
        seed=seed,
        ids=ids,
        channels=int(211 * scale),  # one in twenty is private, and none of our accounts is in it
        posts=520,
        kills=32,
        pause=(3, 12),
        lived=timedelta(hours=8),
        settle_seconds=1200,
    )
    await chaos(await begin(plan), live, end)


async def chaos(run: Run, live: Fixture, end: Fixture) -> None:
    print(f"CHAOS_SEED={run.plan.seed}")
    began = monotonic()
    messages = sum(len(channel.messages) for channel in run.watched)
    await run.ask_for_everything()
    run.tasks = [asyncio.ensure_future(slot.keep()) for slot in run.slots]
    background = [asyncio.ensure_future(live(run).run()), asyncio.ensure_future(run.ask_for_history())]
    run.tasks += background
    await run.kill_at_random()
    await end([background[0]])
    run.stood_still_at = datetime.now(UTC)
    answered = Counter(call.outcome == "ok" for call in run.sim.rpc_log)
    run.say("seed", run.plan.seed)
    run.say("channels, messages at the start, at the end", (len(run.watched), messages, alive(run)))
    run.say("kills", ", ".join(f"{count} {what}" for what, count in sorted(run.kills.items())))
    run.say("ingest started, gave up because an engine was away", tuple(sum_of(run, "starts", "gave_up")))
    run.say("faults", ", ".join(f"{count} {what}" for what, count in run.sim.faults.fired.most_common()))
    run.say(
        "requests that were answered well, of the last 20,000", f"{100 * answered[True] // max(1, answered.total())} %"
    )
    chaotic = monotonic() - began
    run.sim.faults.clear()
    try:
        await settle(run)
    finally:
        run.say("seconds of chaos, to settle", (round(chaotic), round(monotonic() - began - chaotic)))
    await judge(run)


def sum_of(run: Run, *names: str) -> list[int]:
    return [sum(getattr(slot, name) for slot in run.slots) for name in names]


def alive(run: Run) -> int:
    return sum(len(channel.messages) for channel in run.watched)


async def settle(run: Run) -> None:
    """Nothing breaks any more. What an operator would do is done: revive, and have everything tried at once."""
    run.say(
        "channels given up and revived",
        await run.change("UPDATE channels SET status = 'active', failures = 0 WHERE status = 'dead'"),
    )
    await run.change("UPDATE channel_requests SET next_attempt_at = NULL")
    await until(run, lambda: complete(run), "every channel is captured")
    run.say("edits and deletions that only the last look found", len(await differing(run)))
    # Everything of the widest window is read again, as it would be within a day.
    await run.change("UPDATE channels SET refreshed = '{}', next_visit_at = now()")
    await until(run, lambda: same(run), "edits and deletions are right")
    await until(run, lambda: no_files_wait(run), "every file is there")
    await until(run, lambda: nothing_to_tell(run), "every event is published")


async def until(run: Run, true: Callable[[], Awaitable[bool]], what: str) -> None:
    deadline = monotonic() + run.plan.settle_seconds
    while True:
        for task in run.tasks:
            if task.done() and not task.cancelled():
                task.result()
        with suppress(SQLAlchemyError):  # a pooled connection from before the last restart
            if await true():
                return
        if monotonic() > deadline:
            await judge(run, failed=what)
        await asyncio.sleep(1)


async def complete(run: Run) -> bool:
    """Visited since the world stands still, all of its history is asked for, and nothing is unknown."""
    rows = await run.rows(
        "SELECT count(*) FILTER (WHERE requested_from = 1 AND history_from IS NULL AND newest_id > 0"
        " AND last_success_at > :since AND coverage @> int8range(1, newest_id + 1)) AS whole FROM channels",
        since=run.stood_still_at,
    )
    return bool(rows[0].whole == len(run.watched))


async def differing(run: Run) -> list[tuple[int, int, str]]:
    """Posts that are not what the truth says."""
    rows = await run.rows("SELECT channel_id, message_id, text, deleted_at IS NOT NULL AS deleted FROM posts")
    stored = {(row.channel_id, row.message_id): None if row.deleted else row.text for row in rows}
    truth = {(channel.id, message.id): message.text for channel in run.watched for message in channel.messages.values()}
    wrong = [
        (*key, "missing" if key not in stored else "deleted" if stored[key] is None else "text")
        for key, words in truth.items()
        if stored.get(key) != words
    ]
    return wrong + [(*key, "not deleted") for key, words in stored.items() if words is not None and key not in truth]


async def same(run: Run) -> bool:
    visited = await run.rows("SELECT 1 FROM channels WHERE refreshed = '{}'")
    return not visited and await complete(run) and not await differing(run)


async def no_files_wait(run: Run) -> bool:
    """Files that failed wait longer and longer, and those of a killed process for the end of its lease: not here."""
    if monotonic() > run.files_due_at:
        run.files_due_at = monotonic() + FILES_AGAIN
        await run.change("UPDATE post_media SET next_attempt_at = now() WHERE status = 'pending'")
    return not await run.rows("SELECT 1 FROM post_media WHERE status = 'pending' LIMIT 1")


async def nothing_to_tell(run: Run) -> bool:
    waiting = await run.rows("SELECT 1 FROM outbox")
    growing = await run.rows("SELECT 1 FROM media_groups WHERE announced_items <> items_count")
    return not waiting and not growing


async def judge(run: Run, failed: str | None = None) -> None:
    """Compare the store with the truth, print the figures, and fail unless each is what it must be."""
    verdicts = [
        *await posts_verdict(run),
        *await albums_verdict(run),
        *await files_verdict(run),
        *await events_verdict(run),
    ]
    table = Table("what", "figure", "must be", title="Chaos")
    for what, value in run.figures:
        table.add_row(what, str(value), "")
    for what, value, wanted in verdicts:
        table.add_row(what, str(value), str(wanted), style=None if value == wanted else "bold red")
    Console(width=160).print(table)
    wrong = [f"{what}: {value} instead of {wanted}" for what, value, wanted in verdicts if value != wanted]
    if failed or wrong:
        await explain(run)
    assert failed is None, f"not within {run.plan.settle_seconds:.0f} s: {failed}; {wrong}"
    assert wrong == []
    assert run.kills.total() >= run.plan.kills


async def explain(run: Run) -> None:
    for row in (await differing(run))[:20]:
        print(row)
    statement = (
        "SELECT id, username, status, cursor_id, newest_id, requested_from, history_from, coverage::text, failures,"
        " last_error, leased_by, next_visit_at FROM channels WHERE NOT coverage @> int8range(1, newest_id + 1) LIMIT 10"
    )
    for row in await run.rows(statement):
        print(tuple(row))


async def posts_verdict(run: Run) -> list[tuple[str, object, object]]:
    rows = await run.rows("SELECT channel_id, message_id FROM posts WHERE deleted_at IS NULL")
    changed = await run.rows(
        "SELECT (SELECT count(*) FROM post_versions) AS edited, count(*) FILTER (WHERE deleted_at IS NOT NULL) AS gone"
        " FROM posts"
    )
    run.say("edits, deletions of posts that were captured before", tuple(changed[0]))
    kinds = Counter(kind for _, _, kind in await differing(run))
    channels = Channels(run.database)
    ledgers = [await channels.ledger(channel.id) for channel in run.watched if await channels.get(channel.id)]
    counted = await run.rows(
        "SELECT count(*) AS wrong FROM channels c"
        " WHERE captured <> (SELECT count(*) FROM posts WHERE channel_id = c.id)"
    )
    return [
        ("posts stored", len(rows), alive(run)),
        ("posts missing", kinds["missing"], 0),
        ("posts doubled", len(rows) - len({tuple(row) for row in rows}), 0),
        ("edits not seen", kinds["text"], 0),
        ("deletions not seen, or imagined", kinds["not deleted"] + kinds["deleted"], 0),
        ("ids unknown in the ledger", sum(ledger.unknown for ledger in ledgers), 0),
        ("ids not requested", sum(ledger.not_requested for ledger in ledgers), 0),
        ("ledgers that count wrong", counted[0].wrong, 0),
    ]


async def albums_verdict(run: Run) -> list[tuple[str, object, object]]:
    truth: dict[tuple[int, int], list[int]] = {}
    for channel in run.watched:
        for message in channel.messages.values():
            if message.grouped_id is not None:
                truth.setdefault((channel.id, message.grouped_id), []).append(message.id)
    rows = await run.rows(
        "SELECT g.channel_id, g.grouped_id, g.items_count, array_agg(p.message_id ORDER BY i.position) AS ids"
        " FROM media_groups g LEFT JOIN media_group_items i ON i.group_id = g.id LEFT JOIN posts p ON p.id = i.post_id"
        " GROUP BY g.id"
    )
    stored = {(row.channel_id, row.grouped_id): list(row.ids) for row in rows}
    broken = [key for key in truth.keys() | stored.keys() if truth.get(key) != stored.get(key)]
    return [("albums", len(stored), len(truth)), ("albums not whole", len(broken), 0)]


async def files_verdict(run: Run) -> list[tuple[str, object, object]]:
    truth = {
        (channel.id, message.id): message.file
        for channel in run.watched
        for message in channel.messages.values()
        if message.file is not None
    }
    rows = await run.rows(
        "SELECT p.channel_id, p.message_id, m.status, m.sha256, o.storage_key FROM post_media m"
        " JOIN posts p ON p.id = m.post_id LEFT JOIN media_objects o USING (sha256) WHERE p.deleted_at IS NULL"
    )
    home = run.folder / "data" / "media"
    stored, wrong, lost = 0, 0, 0
    for row in rows:
        if row.status == "stored":
            stored += 1
            wrong += row.sha256 != sha256(truth[row.channel_id, row.message_id].data).hexdigest()
            lost += not (home / row.storage_key).is_file()
    return [
        ("files stored", stored, len(truth)),
        ("files with other bytes", wrong, 0),
        ("files not in the store", lost, 0),
    ]


async def events_verdict(run: Run) -> list[tuple[str, object, object]]:
    told = {event: await events_of(run, event) for event in (POSTS_PARSED, POSTS_DELETED, ALBUMS_PARSED)}
    keys = {event: Counter(one.idempotency_key for one in found) for event, found in told.items()}
    run.say("events published", ", ".join(f"{len(found)} {event}" for event, found in told.items()))
    run.say("of them again, to be handled once", sum(count.total() - len(count) for count in keys.values()))
    posts = await run.rows("SELECT id, version, deleted_at IS NOT NULL AS deleted FROM posts")
    expected = {f"{POSTS_PARSED}:{row.id}:{row.version}" for row in posts if not row.deleted}
    gone = {row.id for row in posts if row.deleted}
    hashes: dict[str, set[str]] = {}
    for event in told[POSTS_PARSED]:
        hashes.setdefault(event.idempotency_key, set()).add(event.content_hash)
    known = {post_id(channel.id, number) for channel in run.watched for number in range(1, channel.newest_id + 1)}
    albums = {
        album_id(channel.id, message.grouped_id): None
        for channel in run.watched
        for message in channel.messages.values()
        if message.grouped_id is not None
    }
    last = {event.album_id: event for event in told[ALBUMS_PARSED]}
    members = await run.rows("SELECT id, items_count FROM media_groups")
    return [
        ("posts whose last version was never told", len(expected - keys[POSTS_PARSED].keys()), 0),
        ("deletions never told", len(gone - {event.post_id for event in told[POSTS_DELETED]}), 0),
        ("albums never told", len(albums.keys() - last.keys()), 0),
        (
            "albums told last with other items",
            sum(last[r.id].items_count != r.items_count for r in members if r.id in last),
            0,
        ),
        ("one key for two things", sum(len(found) > 1 for found in hashes.values()), 0),
        ("events about nothing", len({event.post_id for event in told[POSTS_PARSED]} - known), 0),
    ]


async def events_of(run: Run, event: str) -> list[Any]:
    entries: Any = await run.redis.xrange(stream(event))
    return [one for _, entry in entries for one in decode(EVENTS[event], entry[FIELD])]
