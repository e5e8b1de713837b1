"""`tga jobs`: what is done again and again, how it went, and now."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from telegram_assistant.cli.session import print_json, with_runtime
from telegram_assistant.errors import Fatal
from telegram_assistant.jobs import Plan, plans
from telegram_assistant.names import JOBS_LOCK
from telegram_assistant.stores.postgres.jobs import JobRuns, Outcome, Run
from telegram_assistant.wiring.runtime import Runtime

SHOWN = 100
POLL = 0.3  # seconds

console = Console()


def list_(as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False) -> None:
    async def work(runtime: Runtime) -> list[tuple[Plan, str, Run | None]]:
        latest = await JobRuns(runtime.database).latest()
        now = runtime.clock()
        return [
            (plan, f"{plan.slot(now) + plan.every:%Y-%m-%d %H:%M}", latest.get(plan.name)) for plan in _table(runtime)
        ]

    found = with_runtime(work)
    if as_json:
        print_json([_plain(*one) for one in found])
        return
    table = Table("job", "every", "next (UTC)", "last (UTC)", "outcome", "what", box=None)
    for plan, next_at, run in found:
        last = f"{run.scheduled_for:%Y-%m-%d %H:%M}" if run else "never"
        what = escape((run.error or run.note)[:SHOWN]) if run else ""
        table.add_row(plan.name, str(plan.every), next_at, last, run.outcome if run else "", what)
    console.print(table)


def run(
    job: Annotated[str, typer.Argument(help="Name from tga jobs list", metavar="NAME")],
    wait: Annotated[float, typer.Option(help="Seconds to wait for the end; 0: do not wait.")] = 600,
) -> None:
    async def work(runtime: Runtime) -> Run | None:
        names = [plan.name for plan in _table(runtime)]
        if job not in names:
            raise Fatal(f"there is no job {job!r}; there are {', '.join(names)}")
        if not await runtime.redis.get(JOBS_LOCK):
            raise Fatal("no process runs jobs now: start tga up, or tga api")
        runs, now = JobRuns(runtime.database), runtime.clock()
        await runs.ask(job, now)
        return await _ended(runs, job, now, wait)

    found = with_runtime(work)
    if found is None:
        console.print("Asked for; see: tga jobs list")
    elif found.outcome is Outcome.FAILED:
        raise Fatal(f"{job} failed: {found.error}")
    else:
        console.print(f"{job}: done in {found.seconds or 0:.1f} s. {escape(found.note)}")


async def _ended(runs: JobRuns, job: str, slot: datetime, wait: float) -> Run | None:
    """None: not within that time."""
    deadline = asyncio.get_running_loop().time() + wait
    while asyncio.get_running_loop().time() < deadline:
        found = await runs.get(job, slot)
        if found is not None and found.outcome in {Outcome.DONE, Outcome.FAILED}:
            return found
        await asyncio.sleep(POLL)
    return None


def _table(runtime: Runtime) -> tuple[Plan, ...]:
    return plans(interests_minutes=runtime.settings.interests_sync_minutes)


def _plain(plan: Plan, next_at: str, found: Run | None) -> dict[str, object]:
    return {
        "job": plan.name,
        "every_seconds": plan.every.total_seconds(),
        "next": next_at,
        "last": found.scheduled_for.isoformat() if found else None,
        "outcome": found.outcome if found else None,
        "attempts": found.attempts if found else 0,
        "runner": found.runner if found else None,
        "note": found.note if found else "",
        "error": found.error if found else "",
    }
