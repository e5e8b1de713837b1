"""`tga spend`: what remote models took, what today has left, and what still waits would take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any
from uuid import UUID

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.ai.providers import ModelsConfig, Provider, RemoteConfig
from telegram_assistant.ai.spend import Day
from telegram_assistant.cli.session import print_json, with_runtime
from telegram_assistant.domain.budgets import Kind, day_of
from telegram_assistant.domain.models import Identity
from telegram_assistant.errors import Fatal, Retry
from telegram_assistant.index.vectors import Model, Vectors
from telegram_assistant.names import INDEXING, TAGGING
from telegram_assistant.stores.postgres.budgets import Budgets, ModelUsage, UsedOnDay
from telegram_assistant.stores.postgres.enrichment import StoredPosts
from telegram_assistant.stores.postgres.pipeline import Steps
from telegram_assistant.wiring.models import model_budget, models_config, open_vectors
from telegram_assistant.wiring.runtime import Runtime

MOST_DAYS = 366
ONLY_LOCAL = "Only local models are configured: nothing is spent."

console = Console()


@dataclass(frozen=True)
class _Spent:
    """All that is shown."""

    used: Sequence[UsedOnDay]
    today: Day
    tenants: Mapping[str, Mapping[str, int]]  # today, by name and kind
    waiting: Sequence[Forecast]
    only_local: bool
    priced: bool


def spend(
    days: Annotated[int, typer.Option(min=1, max=MOST_DAYS, help="Days to show, and to estimate by.")] = 7,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    found = with_runtime(lambda runtime: _spent(runtime, days))
    if as_json:
        print_json(_plain(found))
        return
    if found.used:
        console.print(_table(found))
    if found.tenants:
        console.print(_tenants(found.tenants))
    if found.only_local:
        console.print(ONLY_LOCAL)
        return
    if not found.used:
        console.print(f"No remote model was asked in the last {_counted(days, 'day')}.", highlight=False)
    console.print(_today(found.today), highlight=False, soft_wrap=True)
    for one in found.waiting:
        console.print(Text(_waiting(one, days, priced=found.priced)), highlight=False, soft_wrap=True)


async def _spent(runtime: Runtime, days: int) -> _Spent:
    settings = runtime.settings
    midnight = day_of(runtime.clock())
    used = await ModelUsage(runtime.database, runtime.clock).by_day(midnight - timedelta(days=days - 1))
    return _Spent(
        used=used,
        today=await model_budget(settings, runtime.database, runtime.clock).today(),
        tenants=await Budgets(runtime.database).by_tenant(midnight),
        waiting=await forecasts(
            models_config(runtime.settings),
            runtime.database,
            used,
            open_vectors=lambda: open_vectors(runtime.settings, runtime.folder.path),
            tag_from=runtime.settings.tagging_min_chars,
        ),
        only_local=models_config(settings).used == {Provider.LOCAL},
        priced=bool(settings.ai_price_per_1k_in or settings.ai_price_per_1k_out or sum(one.cost for one in used)),
    )


def _table(found: _Spent) -> Table:
    table = Table("day (UTC)", "ability", "provider", "model", box=None)
    for name in ("calls", "tokens", *(["cost"] if found.priced else [])):
        table.add_column(name, justify="right")
    for one in found.used:
        cost = [f"{one.cost:,.4f}"] if found.priced else []
        what = (one.ability, one.provider, escape(one.model))
        table.add_row(f"{one.day:%Y-%m-%d}", *what, f"{one.calls:,}", f"{one.tokens:,}", *cost)
    return table


def _tenants(tenants: Mapping[str, Mapping[str, int]]) -> Table:
    table = Table("tenant, today", box=None)
    kinds = {Kind.VISION: "tokens for pictures", Kind.MODELS: "other tokens", Kind.CRAWL: "pages"}
    for title in kinds.values():
        table.add_column(title, justify="right")
    for name, spent in tenants.items():
        table.add_row(escape(name), *(f"{spent.get(kind, 0):,}" for kind in kinds))
    return table


def _today(day: Day) -> str:
    if day.limit is None:
        return f"Today: {day.tokens:,} tokens for tags, vectors and answers. MODEL_TOKENS_PER_DAY sets no limit."
    return (
        f"Today: {day.tokens:,} of {day.limit:,} tokens for tags, vectors and answers; {day.left:,} left until"
        f" {day.resets_at:%Y-%m-%d %H:%M} UTC."
    )


def _waiting(one: Forecast, days: int, *, priced: bool) -> str:
    said = f"Still to {one.ability}: {_counted(one.posts, 'post')}"
    if one.posts and one.tokens is not None and one.tokens_per_post is not None:
        said += f", about {one.tokens:,} tokens ({one.tokens_per_post:,.0f} a post)"
        said += f", cost about {one.cost:,.4f}" if priced else ""
    elif one.posts:
        said += f", tokens unknown: {one.model} did none in the last {_counted(days, 'day')}"
    return f"{said}; {one.note}" if one.note else f"{said}."


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _plain(found: _Spent) -> dict[str, Any]:
    day = found.today
    return {
        "only_local": found.only_local,
        "days": [
            {
                "day": f"{one.day:%Y-%m-%d}",
                "ability": one.ability,
                "provider": one.provider,
                "model": one.model,
                "calls": one.calls,
                "tokens": one.tokens,
                "cost": one.cost,
            }
            for one in found.used
        ],
        "today": {
            "tokens": day.tokens,
            "by_ability": dict(day.by_ability),
            "limit": day.limit,
            "left": day.left,
            "resets_at": day.resets_at.isoformat(),
        },
        "tenants": {name: dict(spent) for name, spent in found.tenants.items()},
        "waiting": [
            {
                "ability": one.ability,
                "provider": one.provider,
                "model": one.model,
                "posts": one.posts,
                "tokens_per_post": one.tokens_per_post,
                "tokens": one.tokens,
                "cost": one.cost,
                "note": one.note,
            }
            for one in found.waiting
        ],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Posts that wait for an ability; None: no call was made yet, so the price is unknown."""

    ability: str
    provider: str
    model: str
    posts: int
    tokens_per_post: float | None
    cost_per_post: float | None
    note: str = ""

    @property
    def tokens(self) -> int | None:
        return None if self.tokens_per_post is None else round(self.posts * self.tokens_per_post)

    @property
    def cost(self) -> float | None:
        return None if self.cost_per_post is None else self.posts * self.cost_per_post


async def forecasts(
    config: ModelsConfig,
    database: AsyncEngine,
    used: Sequence[UsedOnDay],
    *,
    open_vectors: Callable[[], Vectors],
    tag_from: int,
) -> list[Forecast]:
    """Of the remote models, by what posts took in `used`. Texts shorter than `tag_from` are not tagged."""
    steps = Steps(database)
    found = []
    if config.tag is not Provider.LOCAL:
        posts = await steps.lacking(TAGGING, min_chars=tag_from)
        found.append(_forecast("tag", Identity(config.tag, _remote(config, config.tag).model), posts, used))
    if config.embed is not Provider.LOCAL:
        remote = _remote(config, config.embed)
        identity = Identity(config.embed, remote.embedding_model)
        posts, note = await _without_vectors(
            open_vectors(), StoredPosts(database), steps, Model(str(identity), remote.embedding_size)
        )
        found.append(_forecast("embed", identity, posts, used, note))
    return found


def _remote(config: ModelsConfig, provider: Provider) -> RemoteConfig:
    return config.gigachat if provider is Provider.GIGACHAT else config.openai


def _forecast(ability: str, identity: Identity, posts: int, used: Sequence[UsedOnDay], note: str = "") -> Forecast:
    wanted = (ability, identity.provider, identity.model)
    same = [one for one in used if (one.ability, one.provider, one.model) == wanted]
    calls = sum(one.calls for one in same)
    return Forecast(
        ability=ability,
        provider=identity.provider,
        model=identity.model,
        posts=posts,
        tokens_per_post=sum(one.tokens for one in same) / calls if calls else None,
        cost_per_post=sum(one.cost for one in same) / calls if calls else None,
        note=note,
    )


async def _without_vectors(vectors: Vectors, stored_posts: StoredPosts, steps: Steps, model: Model) -> tuple[int, str]:
    """After a change of the model that is all posts but those that have its vectors already."""
    try:
        tenants = await stored_posts.tenants()
        current = [await vectors.current(tenant) for tenant in tenants]
        if all(found in (None, model) for found in current):
            return await steps.lacking(INDEXING), ""
        return sum([await stored_posts.count(one) - await _there(vectors, one, model) for one in tenants]), ""
    except Retry as exc:
        return await steps.lacking(INDEXING), f"posts that another model embedded are not counted: {exc}"
    finally:
        await vectors.close()


async def _there(vectors: Vectors, tenant_id: UUID, model: Model) -> int:
    try:
        return sum([len(piece) async for piece in vectors.ids(tenant_id, model)])
    except Fatal:
        return 0  # not begun yet
