"""The tokens of a day: shared by processes on a real Valkey, taken by an OpenAI-compatible server on loopback."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.ai.budget import AWAY, SPREAD
from telegram_assistant.ai.inflection import Inflection
from telegram_assistant.ai.providers import Models
from telegram_assistant.ai.spend import BudgetSpent, TokenBudget
from telegram_assistant.bus.stage import Done
from telegram_assistant.domain.understanding import Passage
from telegram_assistant.errors import Retry
from telegram_assistant.index.edge_vectors import EdgeVectors
from telegram_assistant.index.ladybug_graph import LadybugGraph
from telegram_assistant.metrics import REGISTRY
from telegram_assistant.names import POSTS_PARSED
from telegram_assistant.runtime import utc_now
from telegram_assistant.search.lexemes import Lexicon
from telegram_assistant.stages.index_entry import EntryReader
from telegram_assistant.stages.indexing import Indexes
from telegram_assistant.stages.search_entry import TextIndex
from telegram_assistant.stages.seen import SeenWords
from telegram_assistant.stages.tagging import Tagging, tag_posts
from telegram_assistant.stores.media import MediaStore
from telegram_assistant.stores.postgres.models import ModelResults
from telegram_assistant.stores.postgres.search import SearchDocuments
from telegram_assistant.stores.redis import open_redis
from tests.integration.stages.desk import FOOTBALL, SYSTEM, WEATHER, Desk, post

pytestmark = pytest.mark.integration

OpenAi = Any  # of conftest.py, which cannot be imported
Make = Callable[..., Models]
EVENING = datetime(2026, 1, 5, 22, 0, tzinfo=UTC)
TAG = 120  # tokens that the server says a chat takes
EMBED = 7
REFUSAL = r"used up \(240 of 240\): wait until 2026-01-06 00:00 UTC, or raise MODEL_TOKENS_PER_DAY"
KNOWS_NOBODY = "redis://127.0.0.1:1/0"


class Clock:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.now = EVENING

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def budget(redis: Redis, clock: Clock) -> Callable[[int | None], TokenBudget]:
    return lambda limit: TokenBudget(redis, tokens_per_day=limit, clock=clock, chance=lambda: 0.5)


@pytest.fixture
async def desk(database: AsyncEngine, redis: Redis) -> Desk:
    made = Desk(database, redis, MediaStore.open("memory://"))
    await made.open_channel()
    return made


def sample(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


async def test_the_limit_is_reached_in_the_middle_and_the_next_day_goes_on(
    openai: OpenAi, make: Make, budget: Any, clock: Clock
) -> None:
    models = make(openai, budget=budget(2 * TAG))
    before = sample("model_budget_refused_total", reason="tokens")
    calls = sample("ai_requests_total", provider="openai", ability="tag", outcome="retry")
    await models.tagger.tag(WEATHER)
    await models.tagger.tag(FOOTBALL)
    refused: list[BudgetSpent] = []
    for call in (
        models.tagger.tag("Третий пост"),
        models.embedder.embed(["снег"]),
        models.answerer.answer("Кто?", [Passage(key="1", text="Он.")]),
    ):
        with pytest.raises(BudgetSpent, match=REFUSAL) as told:
            await call
        refused.append(told.value)
    assert len(openai.asked) == 2
    assert {one.after for one in refused} == {2 * 3600 + 0.5 * SPREAD}
    assert {one.until for one in refused} == {datetime(2026, 1, 6, tzinfo=UTC)}
    assert sample("model_budget_refused_total", reason="tokens") == before + 3
    assert sample("ai_requests_total", provider="openai", ability="tag", outcome="retry") == calls, "it was no call"
    clock.now += timedelta(seconds=refused[0].after or 0)
    await models.tagger.tag("Третий пост")
    assert len(openai.asked) == 3


async def test_every_ability_counts_into_one_sum(openai: OpenAi, make: Make, budget: Any, clock: Clock) -> None:
    shared = budget(10_000)
    models = make(openai, budget=shared)
    openai.brain = lambda _system, _data: '{"sentences": []}'
    await models.embedder.embed(["снег", "дождь"])
    await models.answerer.answer("Кто?", [Passage(key="1", text="Он.")])
    openai.brain = lambda _system, _data: '{"tags": []}'
    await models.tagger.tag(WEATHER)
    day = await shared.today()
    assert day.by_ability == {"tag": TAG, "embed": EMBED, "answer": TAG}
    assert (day.tokens, day.left) == (2 * TAG + EMBED, 10_000 - 2 * TAG - EMBED)
    assert sample("model_budget_spent_tokens", ability="embed") == EMBED
    assert sample("model_budget_limit_tokens") == 10_000
    clock.now += timedelta(hours=2)
    assert sample("model_budget_spent_tokens", ability="embed") == 0, "of the new day, though nobody asked yet"


async def test_what_is_kept_is_free(openai: OpenAi, make: Make, budget: Any, database: AsyncEngine) -> None:
    models = make(openai, budget=budget(TAG)).cached(ModelResults(database))
    first = await models.tagger.tag(WEATHER)
    assert (await models.tagger.tag(WEATHER)).tags == first.tags
    with pytest.raises(BudgetSpent):
        await models.tagger.tag(FOOTBALL)


async def test_what_a_failed_call_took_is_charged(openai: OpenAi, make: Make, budget: Any) -> None:
    shared = budget(2 * TAG)
    models = make(openai, budget=shared)
    openai.brain = lambda _system, _data: "I cannot speak in JSON"
    with pytest.raises(Retry, match="form"):
        await models.tagger.tag(WEATHER)
    assert (await shared.today()).tokens == 2 * TAG, "it was asked twice"
    with pytest.raises(BudgetSpent, match=REFUSAL):
        await models.tagger.tag(WEATHER)


async def test_calls_at_once_may_go_over_but_are_all_counted(openai: OpenAi, make: Make, budget: Any) -> None:
    shared = budget(TAG)
    models = make(openai, budget=shared)
    told = await asyncio.gather(*(models.tagger.tag(f"{WEATHER} {n}") for n in range(6)), return_exceptions=True)
    served = [one for one in told if not isinstance(one, BudgetSpent)]
    assert served
    assert (await shared.today()).tokens == TAG * len(openai.asked) == TAG * len(served)
    with pytest.raises(BudgetSpent):
        await models.tagger.tag(WEATHER)


OTHER_PROCESS = """
import asyncio, json, sys
from datetime import datetime
from telegram_assistant.ai.accounts import OpenAiServer
from telegram_assistant.ai.providers import ModelsConfig, Provider, build_models
from telegram_assistant.ai.spend import BudgetSpent, TokenBudget
from telegram_assistant.stores.postgres.search import SearchDocuments
from telegram_assistant.stores.redis import open_redis

async def main(redis_url, url, key, limit, now):
    redis = open_redis(redis_url)
    budget = TokenBudget(redis, tokens_per_day=int(limit), clock=lambda: datetime.fromisoformat(now))
    server = OpenAiServer(base_url=url, api_key=key)
    models = build_models(ModelsConfig(tag=Provider.OPENAI, openai_server=server), None, budget)
    done = 0
    try:
        for number in range(5):
            await models.tagger.tag(f"A post of the other process, number {number}")
            done += 1
    except BudgetSpent as exc:
        print(json.dumps([done, str(exc)]))
    await models.close()
    await redis.aclose()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_two_processes_share_it(openai: OpenAi, make: Make, budget: Any, redis_url: str) -> None:
    models = make(openai, budget=budget(3 * TAG))
    await models.tagger.tag(WEATHER)
    arguments = (redis_url, f"{openai.url}/v1", "test-key-1234", str(3 * TAG), EVENING.isoformat())
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OTHER_PROCESS, *arguments, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    done, told = json.loads(out)
    assert done == 2
    assert "360 of 360" in told
    with pytest.raises(BudgetSpent):
        await models.tagger.tag(FOOTBALL)
    assert len(openai.asked) == 3


async def test_without_redis_nothing_is_asked_unless_there_is_no_limit(openai: OpenAi, make: Make) -> None:
    away = open_redis(KNOWS_NOBODY)
    limited = make(openai, budget=TokenBudget(away, tokens_per_day=1_000))
    with pytest.raises(Retry, match="cannot be asked, so no model is") as told:
        await limited.tagger.tag(WEATHER)
    assert told.value.after == AWAY
    assert not isinstance(told.value, BudgetSpent)
    assert openai.asked == []
    await make(openai, budget=TokenBudget(away)).tagger.tag(WEATHER)
    assert len(openai.asked) == 1
    await away.aclose()


async def test_without_a_limit_it_is_counted_so_that_one_may_be_set_later(
    openai: OpenAi, make: Make, budget: Any
) -> None:
    unlimited = budget(None)
    await make(openai, budget=unlimited).tagger.tag(WEATHER)
    assert await unlimited.report() is None
    assert ((await unlimited.today()).tokens, (await unlimited.today()).left) == (TAG, None)
    with pytest.raises(BudgetSpent):
        await make(openai, budget=budget(TAG)).tagger.tag(FOOTBALL)


async def test_health_names_a_budget_that_is_used_up_and_its_end(openai: OpenAi, make: Make, budget: Any) -> None:
    shared = budget(2 * TAG)
    models = make(openai, budget=shared)
    await models.tagger.tag(WEATHER)
    report = await shared.report()
    assert report == {
        "limit": 2 * TAG,
        "spent": TAG,
        "left": TAG,
        "resets_at": "2026-01-06T00:00:00+00:00",
        "trouble": None,
    }
    await models.tagger.tag(FOOTBALL)
    assert "until 2026-01-06 00:00 UTC" in (await shared.report())["trouble"]


async def test_posts_beyond_the_limit_wait_and_the_others_go_on(
    openai: OpenAi, make: Make, budget: Any, desk: Desk
) -> None:
    await desk.save(post(1, WEATHER), post(2, FOOTBALL), post(3, f"{WEATHER} {FOOTBALL}"), post(4, "short"))
    events = await desk.told(POSTS_PARSED)
    models = make(openai, budget=budget(2 * TAG))
    tagging = Tagging(models.tagger, desk.usage, utc_now, at_once=1)
    outcomes = await tag_posts(events, tagging=tagging)
    assert [type(outcome) for outcome in outcomes] == [Done, Done, BudgetSpent, Done]
    (used,) = await desk.usage.since(SYSTEM, EVENING)
    assert (used.ability, used.calls, used.tokens) == ("tag", 2, 2 * TAG)


async def test_vectors_of_posts_are_written_down_each_text_a_call(
    openai: OpenAi, make: Make, budget: Any, desk: Desk, folder: Path
) -> None:
    posts = [post(1, WEATHER), post(2, FOOTBALL), post(3, "short")]
    await desk.save(*posts)
    models = make(openai, budget=budget(2 * EMBED)).cached(ModelResults(desk.database))
    vectors, graph = EdgeVectors(folder / "vectors"), LadybugGraph(folder / "graph", memory_mb=128)
    entries = EntryReader(desk.materials, desk.enrichments, desk.pages, SeenWords(desk.pictures))
    texts = TextIndex(SearchDocuments(desk.database), Lexicon(Inflection()))
    indexes = Indexes(vectors, graph, texts, models.embedder, entries, utc_now, desk.usage)
    await indexes.put_vectors([one.id for one in posts[:2]])
    await indexes.put_vectors([one.id for one in posts])
    (used,) = await desk.usage.since(SYSTEM, EVENING)
    assert (used.ability, used.calls, used.tokens) == ("embed", 3, 2 * EMBED)
    await desk.save(post(4, f"{WEATHER} {FOOTBALL}"))
    with pytest.raises(BudgetSpent):
        await indexes.put_vectors([post(4).id])
    await vectors.close()
    await graph.close()
