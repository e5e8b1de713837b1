"""`make load`, `make soak`: everything at once, for as long as one likes, and what became of it.

A simulated Telegram of many channels posts at a steady rate; a real `tga ingest` hears it live over MTProto, real
`tga worker` processes do the rest, `tga api` is asked a search every few seconds. Every two seconds it is written down
how far each stage is behind, what memory each role has and what the logs say; afterwards the tables and the indexes are
compared with what was posted.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from bench.engines import Engines, started_engines
from bench.figure import RESULTS
from bench.load_outcome import Marks, Outcome, Plan
from bench.load_progress import Progress
from bench.load_report import write
from bench.load_roles import Slot, environment, started
from bench.load_telegram import Telegram, simulated
from bench.load_verdict import found_from, judge, saved_at, settled
from bench.load_watch import Watch
from bench.workers import ready_vectors
from telegram_assistant.access.people import People, system_caller
from telegram_assistant.bus.streams import make_group
from telegram_assistant.stages import groups
from telegram_assistant.stores.postgres.accounts import TelegramAccounts
from telegram_assistant.stores.postgres.database import raw_transaction
from telegram_assistant.stores.sealed import Sealer

SECRET = "of the load"  # noqa: S105 - of an invented Telegram
PER_ACCOUNT = 500  # channels that Telegram lets an account join
VECTOR = 512  # numbers in a ready-made vector
QUIET_RATE = 2.0  # posts a second, before the load: the limit that delays are compared with
VISIT_SECONDS = 1200.0


async def measure(plan: Plan, models: bool, progress: Progress) -> Outcome:
    """One run with fresh engines."""
    name = plan.name(models=models)
    async with AsyncExitStack() as stack:
        progress.say(f"{name}: engines and the simulated Telegram start")
        engines = await stack.enter_async_context(started_engines())
        accounts = math.ceil(plan.channels / PER_ACCOUNT)
        telegram = await stack.enter_async_context(simulated(plan.channels, accounts))
        folder = engines.folder / "data"
        folder.mkdir()
        settings = _settings(engines, telegram, folder)
        if not models:
            settings |= _without_models(await stack.enter_async_context(ready_vectors(VECTOR)))
        await _prepare(engines, telegram)
        key = await _key(engines)
        commands = ["ingest", *["worker"] * plan.workers, "api"]
        slots = [Slot(f"{command}-{n}", command, settings, folder) for n, command in enumerate(commands)]
        watch = Watch(engines, telegram, slots, plan.every, tell=partial(progress.show, name, plan))
        async with started(slots), _watching(watch, key) as check:
            marks = await _phases(plan, watch, check, progress)
        progress.say(f"{name}: compared with the truth")
        verdict = await judge(engines.database, await telegram.truth(folder / "truth.json"), folder)
        return Outcome(
            name=name,
            plan=plan,
            models=models,
            marks=marks,
            samples=watch.samples,
            published=telegram.published,
            saved=await saved_at(engines.database),
            found=await found_from(engines.database),
            indexed=watch.indexed,
            searches=watch.searches,
            searches_failed=watch.searches_failed,
            lines=Counter({f"{s.command}: {line}": n for s in slots for line, n in s.lines.items()}),
            restarts=sum(slot.starts - 1 for slot in slots),
            behind=telegram.behind,
            edited=telegram.edited,
            deleted=telegram.deleted,
            verdict=verdict,
        )


async def _phases(plan: Plan, watch: Watch, check: Callable[[], None], progress: Progress) -> Marks:
    """The first visit, some quiet, the load, and what is left of it afterwards."""
    telegram, marks = watch.telegram, Marks()
    if not await _until_calm(watch, check, VISIT_SECONDS):
        raise RuntimeError(f"the first visit was not over after {VISIT_SECONDS:.0f} s: {watch.samples[-1]}")
    watch.phase, marks.quiet = "quiet", time.time()
    await telegram.post(QUIET_RATE, plan.quiet_seconds)
    await _until_calm(watch, check, VISIT_SECONDS)
    watch.phase, marks.began = "load", time.time()
    await telegram.post(plan.rate, plan.seconds, plan.changed)
    watch.phase, marks.posted = "after", time.time()
    check()
    if await _until_calm(watch, check, plan.patience):
        marks.calm = watch.samples[-1].at
    else:
        progress.say(f"something still waits after {plan.patience:.0f} s")
    return marks


async def _until_calm(watch: Watch, check: Callable[[], None], seconds: float) -> bool:
    """Nothing is on its way, and everything that is there is indexed."""
    deadline = time.monotonic() + seconds
    seen = len(watch.samples)
    while time.monotonic() < deadline:
        check()
        last = watch.samples[seen:][-2:]
        at_rest = len(last) == 2 and not any(sample.on_the_way for sample in last)
        if at_rest and await settled(watch.engines.database, watch.telegram.alive):
            return True
        await asyncio.sleep(watch.every / 2)
    return False


@asynccontextmanager
async def _watching(watch: Watch, key: str) -> AsyncIterator[Callable[[], None]]:
    """Gives what raises the error of a watcher that failed."""
    redis_process: Any = await watch.engines.redis.info("server")
    watch.pids = {
        "PostgreSQL": watch.engines.postgres.pid,
        "Valkey": int(redis_process["process_id"]),
        "simulated Telegram": watch.telegram.process.pid,
    }
    (api,) = [slot.address for slot in watch.slots if slot.command == "api"]
    tasks = [asyncio.ensure_future(work) for work in (watch.run(), watch.hear(), watch.search(api, key))]

    def check() -> None:
        for task in tasks:
            if task.done():
                task.result()

    try:
        yield check
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _settings(engines: Engines, telegram: Telegram, folder: Path) -> dict[str, str]:
    return environment(
        TGA_DATA_DIR=str(folder),
        TGA_SECRET_KEY=SECRET,
        DATABASE_URL=engines.database_url,
        REDIS_URL=engines.redis_url,
        TELEGRAM_API_ID="1",
        TELEGRAM_API_HASH="load",
        TELEGRAM_SERVER=telegram.served["address"],
        TELEGRAM_PACING_ENABLED="false",
        INGEST_HEALTH_PORT="0",
        WORKER_HEALTH_PORT="0",
        API_PORT="0",
    )


def _without_models(address: str) -> dict[str, str]:
    return {
        "TAGGING_MIN_CHARS": "1000000",
        "AI_EMBED_PROVIDER": "openai",
        "OPENAI_BASE_URL": address,
        "OPENAI_EMBEDDING_SIZE": str(VECTOR),
    }


async def _prepare(engines: Engines, telegram: Telegram) -> None:
    """The accounts, and the channels as if their usernames had been resolved: that takes Telegram days."""
    store = TelegramAccounts(engines.database, Sealer(SECRET))
    accounts = {
        user: (await store.add(telegram_user_id=user, name=f"Reader {user}", session=session)).id
        for user, session in telegram.served["sessions"]
    }
    async with raw_transaction(engines.database) as connection:
        await connection.executemany(
            "INSERT INTO channels (id, title, username, requested_from, access_hash)"
            " VALUES ($1, $2, $2, 1, jsonb_build_object($3::text, $4::bigint))",
            [(channel, name, accounts[user], hash_) for channel, hash_, name, user in telegram.channels],
        )
    for event, stage in groups():
        await make_group(engines.redis, event, stage)


async def _key(engines: Engines) -> str:
    people = People(engines.database, lambda: datetime.now(UTC))
    tenant = await people.tenant("system")
    if tenant is None:
        raise RuntimeError("the system has a tenant")
    caller = system_caller(tenant)
    user = (await people.invite(caller, name="Load")).user
    return (await people.create_key(caller, name="load", user_id=user.id)).token


async def _measure_all(plan: Plan, modes: Sequence[bool], results: Path) -> list[Outcome]:
    loop, me = asyncio.get_running_loop(), asyncio.current_task()
    for number in (signal.SIGINT, signal.SIGTERM):
        if me is not None:
            loop.add_signal_handler(number, me.cancel)  # and with us ends what was started
    outcomes: list[Outcome] = []
    with Progress() as progress:
        for models in modes:
            outcomes.append(await measure(plan, models, progress))
            write(outcomes, results)  # what is known is kept, whatever becomes of the next
            progress.say(f"written to {results}")
    return outcomes


def plan_of(arguments: Sequence[str]) -> tuple[Plan, list[bool], Path]:
    parser = argparse.ArgumentParser(prog="python -m bench.load", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--soak", action="store_true", help="an hour at a rate that two cores bear, with changes")
    parser.add_argument("--channels", type=int, default=1000)
    parser.add_argument("--rate", type=float, help="posts a second; 100, or 10 of a soak")
    parser.add_argument("--minutes", type=float, help="10, or 60 of a soak")
    parser.add_argument("--models", choices=("off", "on", "both"), help="local models; both, or on for a soak")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--changed", type=float, help="changes per post; none, or 0.05 of a soak")
    parser.add_argument("--quiet", type=float, default=15.0, help="seconds of two posts a second before the load")
    parser.add_argument("--patience", type=float, default=40.0, help="minutes for what is left afterwards")
    parser.add_argument("--every", type=float, default=2.0, help="seconds between two samples")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the page, the plots and the figures")
    given = parser.parse_args(arguments)
    soak = given.soak
    plan = Plan(
        soak=soak,
        channels=given.channels,
        rate=given.rate or (10.0 if soak else 100.0),
        seconds=60.0 * (given.minutes or (60.0 if soak else 10.0)),
        workers=given.workers,
        changed=(0.05 if soak else 0.0) if given.changed is None else given.changed,
        quiet_seconds=given.quiet,
        patience=60.0 * given.patience,
        every=given.every,
    )
    modes = {"off": [False], "on": [True], "both": [False, True]}[given.models or ("on" if soak else "both")]
    return plan, modes, given.results


def main(arguments: Sequence[str]) -> int:
    """0: nothing was lost, and everything came to its end."""
    try:
        outcomes = asyncio.run(_measure_all(*plan_of(arguments)))
    except asyncio.CancelledError:
        print("stopped; everything that was started is ended", file=sys.stderr)
        return 130
    return 1 if any(outcome.verdict.wrong or outcome.marks.calm is None for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
