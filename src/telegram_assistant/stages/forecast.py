"""What remote models will still be asked for, and about how many tokens that takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.ai.providers import ModelsConfig, Provider, RemoteConfig
from telegram_assistant.domain.models import Identity
from telegram_assistant.errors import Fatal, Retry
from telegram_assistant.index.vectors import Model, Vectors
from telegram_assistant.names import INDEXING, TAGGING
from telegram_assistant.stores.postgres.budgets import UsedOnDay
from telegram_assistant.stores.postgres.enrichment import StoredPosts
from telegram_assistant.stores.postgres.pipeline import Steps


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
