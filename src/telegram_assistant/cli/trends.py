"""`tga trends`: what rises in the channels that are watched."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any
from uuid import UUID

import typer
from rich.console import Console
from rich.text import Text

from telegram_assistant.cli.session import print_json, with_runtime
from telegram_assistant.domain.access import SYSTEM_TENANT
from telegram_assistant.jobs.trends import find_trends
from telegram_assistant.stores.postgres.trends import FoundTrend, Trends
from telegram_assistant.wiring.runtime import Runtime

MOST = 100
MOST_DAYS = 90
STEPS = 5
SPARKS = "▁▂▃▄▅▆▇█"

console = Console()


def trends(
    days: Annotated[int, typer.Option(min=1, max=MOST_DAYS, help="Told of in the last so many days.")] = 7,
    now: Annotated[bool, typer.Option("--now", help="Look at the last 24 hours first.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    tenant_id = UUID(SYSTEM_TENANT)

    async def work(runtime: Runtime) -> list[FoundTrend]:
        moment = runtime.clock()
        if now:
            await find_trends(runtime.database, tenant_id, moment)
        since, before = moment - timedelta(days=days), moment + timedelta(days=1)
        return await Trends(runtime.database).page(tenant_id, since=since, before=before, limit=MOST)

    found = with_runtime(work)
    if as_json:
        print_json([_plain(trend) for trend in found])
        return
    for trend in found:
        console.print(_shown(trend), soft_wrap=True)
    if not found:
        console.print("nothing stood out" if now else "nothing stood out; tga trends --now looks at the last 24 hours")


def _shown(trend: FoundTrend) -> Text:
    text = Text(trend.main.key, style="bold").append(f"  {_spark(trend.counts)}", style="cyan")
    text.append(f"  {trend.main.kind}, {trend.state}{', goes on' if trend.goes_on else ''}\n", style="dim")
    text.append(
        f"{trend.mentions} mentions, usually {trend.expected:.1f}; {trend.channels} independent channels;"
        f" score {trend.score:.1f}\n"
    )
    others = [one.subject.key for one in trend.subjects if one.subject != trend.main]
    if others:
        text.append(f"with it: {', '.join(others[:8])}\n", style="dim")
    for number, post in enumerate(trend.path[:STEPS]):
        how = "first" if not number else "copy" if post.source_id else "own words"
        text.append(f"  {post.posted_at:%Y-%m-%d %H:%M}  {post.channel_title}  {post.url}  ({how})\n", style="dim")
    return text


def _spark(counts: Sequence[int]) -> str:
    top = max(counts, default=0) or 1
    return "".join(SPARKS[round((len(SPARKS) - 1) * count / top)] for count in counts)


def _plain(trend: FoundTrend) -> dict[str, Any]:
    return {
        "id": str(trend.id),
        "kind": trend.main.kind,
        "key": trend.main.key,
        "subjects": [{"kind": one.subject.kind, "key": one.subject.key} for one in trend.subjects],
        "state": trend.state,
        "score": round(trend.score, 2),
        "mentions": trend.mentions,
        "expected": round(trend.expected, 3),
        "channels": trend.channels,
        "counts": list(trend.counts),
        "first_at": trend.first_at.isoformat(),
        "last_at": trend.last_at.isoformat(),
        "goes_on": trend.goes_on,
        "path": [
            {"channel": post.channel_title, "posted_at": post.posted_at.isoformat(), "url": post.url}
            for post in trend.path
        ],
    }
