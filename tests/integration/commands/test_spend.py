"""`tga spend`: by day, what is left of today, and an estimate of what still waits."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from telegram_assistant.ai.spend import FREE, ModelBudget, paid_by
from telegram_assistant.domain.events import Step
from telegram_assistant.domain.models import Identity, Usage
from telegram_assistant.domain.post import Post
from telegram_assistant.index.edge_vectors import EdgeVectors
from telegram_assistant.index.vectors import Model, Point
from telegram_assistant.names import INDEXING, TAGGING
from telegram_assistant.stores.postgres.budgets import ModelUsage
from telegram_assistant.wiring.runtime import utc_now
from tests.integration.stages.desk import CHANNEL, FOOTBALL, POSTED, SYSTEM, WEATHER, Desk, post

pytestmark = pytest.mark.integration

Tga = Any  # of conftest.py, which cannot be imported
CHAT, VECTORS = Identity("openai", "gpt-4o-mini", "p1"), Identity("openai", "text-embedding-3-small")
TENANT = UUID(int=7)


@pytest.fixture
def remote(environment: dict[str, str]) -> None:
    """Tags and vectors by a server; it is not asked."""
    environment |= {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1", "OPENAI_EMBEDDING_SIZE": "8"}
    environment |= {"AI_TAG_PROVIDER": "openai", "AI_EMBED_PROVIDER": "openai"}


def done(one: Post, stage: str) -> Step:
    return Step(
        post_id=one.id,
        stage=stage,
        outcome="done",
        note="",
        trace_id="t",
        content_hash=one.content_hash,
        duration_ms=1,
    )


@pytest.fixture
async def spent(desk: Desk) -> Desk:
    """Two days of use by two tenants; of four posts one was tagged and embedded, and one is too short for tags."""
    await desk.change("INSERT INTO tenants (id, name) VALUES (:id, 'seven')", id=TENANT)
    yesterday = ModelUsage(desk.database, lambda: utc_now() - timedelta(days=1))
    for usage in (desk.usage, yesterday):
        await usage.add(SYSTEM, "tag", CHAT, Usage(tokens_in=100, tokens_out=20, cost=0.5))
    await desk.usage.add(TENANT, "tag", CHAT, Usage(tokens_in=200, tokens_out=40, cost=1.0))
    await ModelUsage(desk.database, lambda: utc_now() - timedelta(days=60)).add(
        SYSTEM, "tag", CHAT, Usage(tokens_in=9_999)
    )
    async with ModelBudget(desk.budgets).paid(CHAT, "tag", FREE, 1) as spending:
        spending.add(360, 0)
    posts = [post(1, WEATHER), post(2, FOOTBALL), post(3, f"{WEATHER} {FOOTBALL}"), post(4, "short")]
    await desk.save(*posts)
    await desk.steps.record([done(posts[0], TAGGING), done(posts[0], INDEXING)])
    return desk


async def test_local_models_spend_nothing(tga: Tga, desk: Desk) -> None:
    printed = await tga("spend")
    assert printed.out == "Only local models are configured: nothing is spent.\n"
    assert json.loads((await tga("spend", "--json")).out)["only_local"] is True
    assert await desk.rows("SELECT 1 FROM model_usage") == []


@pytest.mark.usefixtures("remote", "desk")
async def test_before_anything_was_asked(tga: Tga) -> None:
    words = (await tga("spend", "--days", "1")).words
    assert "No remote model was asked in the last 1 day." in words
    assert "MODEL_TOKENS_PER_DAY sets no limit" in words
    assert "Still to tag: 0 posts." in words


@pytest.mark.usefixtures("remote", "spent")
async def test_a_table_with_the_limit_and_what_waits(tga: Tga, environment: dict[str, str]) -> None:
    environment["MODEL_TOKENS_PER_DAY"] = "1000"
    words = (await tga("spend")).words
    today = utc_now()
    assert f"{today:%Y-%m-%d} tag openai gpt-4o-mini 2 360 1.5000" in words, "both tenants together"
    assert f"{today - timedelta(days=1):%Y-%m-%d} tag openai gpt-4o-mini 1 120 0.5000" in words
    assert "9,999" not in words
    assert "360 of 1,000 tokens for tags, vectors and answers; 640 left until" in words
    assert "Still to tag: 2 posts, about 320 tokens (160 a post), cost about 1.3333." in words
    assert "Still to embed: 3 posts, tokens unknown: text-embedding-3-small did none in the last 7 days." in words


@pytest.mark.usefixtures("remote")
async def test_json_has_the_same(tga: Tga, spent: Desk) -> None:
    await spent.usage.add(SYSTEM, "embed", VECTORS, Usage(tokens_in=50), calls=5)
    await spent.usage.add(SYSTEM, "search", VECTORS, Usage(tokens_in=3))  # what is searched for is not what posts cost
    found = json.loads((await tga("spend", "--days", "1", "--json")).out)
    assert [(one["ability"], one["calls"], one["tokens"], one["cost"]) for one in found["days"]] == [
        ("embed", 5, 50, 0.0),
        ("search", 1, 3, 0.0),
        ("tag", 2, 360, 1.5),
    ]
    assert found["today"]["by_ability"] == {"tag": 360, "embed": 0, "answer": 0}
    assert (found["today"]["limit"], found["today"]["left"]) == (None, None)
    tag, embed = found["waiting"]
    assert (tag["posts"], tag["tokens_per_post"], tag["tokens"], tag["cost"]) == (2, 180.0, 360, 1.5)
    assert (embed["posts"], embed["tokens"], embed["note"]) == (3, 30, "")


@pytest.mark.usefixtures("remote")
async def test_another_model_embeds_every_post_anew(tga: Tga, spent: Desk, environment: dict[str, str]) -> None:
    """What the new model embedded already is not counted; while another process holds the index, that is said."""
    vectors = EdgeVectors(Path(environment["TGA_DATA_DIR"]) / "vectors")
    new = Model(str(VECTORS), 8)
    await vectors.open(SYSTEM, Model("local|older|", 8))
    embedded = post(1, WEATHER).id
    held = json.loads((await tga("spend", "--json")).out)["waiting"][1]
    await vectors.close()
    assert held["posts"] == 3
    assert "posts that another model embedded are not counted: Another process holds the vector index" in held["note"]
    assert json.loads((await tga("spend", "--json")).out)["waiting"][1]["posts"] == 4
    vectors = EdgeVectors(Path(environment["TGA_DATA_DIR"]) / "vectors")
    await vectors.open(SYSTEM, new)
    point = Point(post_id=embedded, vector=[1.0] * 8, text_hash="", channel_id=CHANNEL, posted_at=POSTED)
    await vectors.put(SYSTEM, new, [point])
    await vectors.close()
    assert json.loads((await tga("spend", "--json")).out)["waiting"][1]["posts"] == 3
    assert await spent.stored_posts.count(SYSTEM) == 4


async def test_what_each_tenant_used_today(tga: Tga, desk: Desk) -> None:
    seven = await desk.tenant("seven")
    with paid_by([seven]):
        async with ModelBudget(desk.budgets).paid(CHAT, "describe", FREE, 1_500) as spending:
            spending.add(1_200, 34)
    assert json.loads((await tga("spend", "--json")).out)["tenants"] == {"seven": {"vision": 1_234}}
    assert "seven 1,234 0 0" in (await tga("spend")).words


async def test_help_has_examples(tga: Tga) -> None:
    printed = await tga("spend", "--help")
    assert "tga spend --days 30 --json" in printed.words
