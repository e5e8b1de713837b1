"""The tokens of a day: shared by processes in PostgreSQL, taken by an OpenAI-compatible server on loopback."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.ai.providers import Models
from telegram_assistant.ai.spend import FREE, SPREAD, BudgetSpent, ModelBudget, ModelLimits, paid_by
from telegram_assistant.bus.stage import Done
from telegram_assistant.domain.events import PostEnriched
from telegram_assistant.domain.models import Identity, Passage
from telegram_assistant.errors import Retry
from telegram_assistant.index.edge_vectors import EdgeVectors
from telegram_assistant.index.ladybug_graph import LadybugGraph
from telegram_assistant.language.inflection import Inflection
from telegram_assistant.language.lexemes import Lexicon
from telegram_assistant.names import POSTS_PARSED
from telegram_assistant.stages.index_entry import EntryReader, TextIndex
from telegram_assistant.stages.indexing import Indexes, index_posts
from telegram_assistant.stages.tagging import Tagging, tag_posts
from telegram_assistant.stores.media import MediaStore
from telegram_assistant.stores.postgres.budgets import Budgets, ModelResults, ModelUsage
from telegram_assistant.stores.postgres.search import SearchDocuments
from telegram_assistant.wiring.runtime import utc_now
from tests.integration.stages.desk import FOOTBALL, SYSTEM, WEATHER, Desk, events_of, post
from tests.metrics import sample
from tests.pipeline_state import used_since

pytestmark = pytest.mark.integration

OpenAi = Any  # of conftest.py, which cannot be imported
Make = Callable[..., Models]
EVENING = datetime(2026, 1, 5, 22, 0, tzinfo=UTC)
YESTERDAY = EVENING - timedelta(days=1)
TAG = 420  # tokens that the server says a chat takes
EMBED = 7  # two words
EMBEDDED = (len(WEATHER) + len(FOOTBALL)) // 4 + EMBED
REFUSAL = r"used up \(840 of 840\): wait until 2026-01-06 00:00 UTC, or raise MODEL_TOKENS_PER_DAY"


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
def budget(database: AsyncEngine, clock: Clock) -> Callable[[int | None], ModelBudget]:
    usage = ModelUsage(database, clock)
    return lambda limit: ModelBudget(
        Budgets(database), usage, ModelLimits(tokens_per_day=limit), clock=clock, chance=lambda: 0.5
    )


@pytest.fixture
async def desk(database: AsyncEngine, redis: Redis) -> Desk:
    made = Desk(database, redis, MediaStore.open("memory://"))
    await made.open_channel()
    return made


@pytest.fixture
async def indexes_of(desk: Desk, folder: Path) -> AsyncIterator[Callable[[Models], Indexes]]:
    vectors, graph = EdgeVectors(folder / "vectors"), LadybugGraph(folder / "graph", memory_mb=128)
    entries = EntryReader(desk.stored_posts, desk.enrichments, desk.pages, desk.pictures)
    texts = TextIndex(SearchDocuments(desk.database), Lexicon(Inflection()))
    yield lambda models: Indexes(vectors, graph, texts, models.embedder, entries, utc_now, desk.budgets)
    await vectors.close()
    await graph.close()


async def refused(call: Awaitable[object]) -> bool:
    try:
        await call
    except BudgetSpent:
        return True
    return False


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


async def test_calls_at_once_do_not_go_over_by_more_than_one(openai: OpenAi, make: Make, budget: Any) -> None:
    shared = budget(TAG)
    models = make(openai, budget=shared)
    told = await asyncio.gather(*(models.tagger.tag(f"{WEATHER} {n}") for n in range(6)), return_exceptions=True)
    assert sorted(type(one).__name__ for one in told) == ["BudgetSpent"] * 5 + ["Tagged"]
    assert (await shared.today()).tokens == TAG == TAG * len(openai.asked)
    with pytest.raises(BudgetSpent):
        await models.tagger.tag(WEATHER)


OTHER_PROCESS = """
import asyncio, json, sys
from datetime import datetime
from telegram_assistant.ai.remote.connections import OpenAiServer
from telegram_assistant.ai.providers import ModelsConfig, Provider, build_models
from telegram_assistant.ai.spend import BudgetSpent, ModelBudget, ModelLimits
from telegram_assistant.stores.postgres.budgets import Budgets
from telegram_assistant.stores.postgres.database import open_database

async def main(database_url, url, key, limit, now):
    database = open_database(database_url)
    limits = ModelLimits(tokens_per_day=int(limit))
    budget = ModelBudget(Budgets(database), limits=limits, clock=lambda: datetime.fromisoformat(now))
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
    await database.dispose()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_two_processes_share_it(openai: OpenAi, make: Make, budget: Any, database_url: str) -> None:
    models = make(openai, budget=budget(3 * TAG))
    await models.tagger.tag(WEATHER)
    arguments = (database_url, f"{openai.url}/v1", "test-key-1234", str(3 * TAG), EVENING.isoformat())
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OTHER_PROCESS, *arguments, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    done, told = json.loads(out)
    assert done == 2
    assert "1260 of 1260" in told
    with pytest.raises(BudgetSpent):
        await models.tagger.tag(FOOTBALL)
    assert len(openai.asked) == 3


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
    tagging = Tagging(models.tagger, desk.budgets, utc_now, at_once=1)
    outcomes = await tag_posts(events, tagging=tagging)
    assert [type(outcome) for outcome in outcomes] == [Done, Done, BudgetSpent, Done]
    (used,) = await used_since(desk.database, SYSTEM, YESTERDAY)
    assert (used.ability, used.calls, used.tokens) == ("tag", 2, 2 * TAG)


async def test_vectors_of_posts_are_written_down_each_text_a_call(
    openai: OpenAi, make: Make, budget: Any, desk: Desk, indexes_of: Callable[[Models], Indexes]
) -> None:
    posts = [post(1, WEATHER), post(2, FOOTBALL), post(3, "short")]
    await desk.save(*posts)
    models = make(openai, budget=budget(EMBEDDED)).cached(ModelResults(desk.database))
    indexes = indexes_of(models)
    await indexes.put_vectors([one.id for one in posts[:2]])
    await indexes.put_vectors([one.id for one in posts])
    (used,) = await used_since(desk.database, SYSTEM, YESTERDAY)
    assert (used.ability, used.calls, used.tokens) == ("embed", 3, EMBEDDED)
    await desk.save(post(4, f"{WEATHER} {FOOTBALL}"))
    with pytest.raises(BudgetSpent):
        await indexes.put_vectors([post(4).id])


async def test_n18_a_server_that_reports_no_usage_is_limited(openai: OpenAi, make: Make, budget: Any) -> None:
    openai.usage = None
    shared = budget(5_000)
    models = make(openai, budget=shared)
    told = [await refused(models.tagger.tag(f"{WEATHER} {number}")) for number in range(20)]
    assert told[-1]
    assert 5 <= len(openai.asked) <= 15, "a question of some 2,000 characters is about 650 tokens"
    assert (await shared.today()).tokens >= 5_000


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": -5_000, "completion_tokens": -5_000},
        {"prompt_tokens": "many", "completion_tokens": None},
        {"prompt_tokens": 1.5},
        [],
        "free",
    ],
    ids=str,
)
async def test_n18_a_figure_that_is_none_is_charged_and_not_asked_again(
    openai: OpenAi, make: Make, budget: Any, database: AsyncEngine, usage: Any
) -> None:
    openai.usage = usage
    shared = budget(100_000)
    models = make(openai, budget=shared).cached(ModelResults(database))
    for _ in range(3):
        await models.tagger.tag(WEATHER)
    await models.embedder.embed([WEATHER])
    assert len(openai.asked) == 2, "what was paid for is kept"
    day = await shared.today()
    assert 500 < day.by_ability["tag"] < 2_000
    assert day.by_ability["embed"] > 0


async def test_n18_an_absurd_figure_does_not_use_up_the_day(openai: OpenAi, make: Make, budget: Any) -> None:
    openai.usage = {"prompt_tokens": 10**15, "completion_tokens": 10**15}
    shared = budget(100_000)
    await make(openai, budget=shared).tagger.tag(WEATHER)
    assert (await shared.today()).left > 90_000


async def test_n18_an_emptied_redis_gives_no_new_tokens(openai: OpenAi, make: Make, budget: Any, redis: Redis) -> None:
    models = make(openai, budget=budget(TAG))
    await models.tagger.tag(WEATHER)
    await redis.flushall()
    with pytest.raises(BudgetSpent):
        await models.tagger.tag(FOOTBALL)


async def test_n18_one_tenants_noise_leaves_the_share_of_another(
    openai: OpenAi, make: Make, budget: Any, desk: Desk
) -> None:
    """Two tenants watch, so each may take half."""
    noisy, quiet = [await desk.tenant(name) for name in ("noisy", "quiet")]
    for channel, watchers in ((501, [noisy]), (502, [quiet]), (503, [noisy, quiet])):
        await desk.open_channel(channel, username=f"n{channel}")
        for tenant in watchers:
            await desk.watch(tenant, channel)
    models = make(openai, budget=budget(8 * TAG))
    tagging = Tagging(models.tagger, desk.budgets, utc_now, at_once=1)

    async def tag(channel: int, *numbers: int) -> list[type]:
        await desk.save(*(post(number, f"{WEATHER} {channel} {number}", channel_id=channel) for number in numbers))
        return [type(one) for one in await tag_posts(await desk.told(POSTS_PARSED), tagging=tagging)]

    assert await tag(501, 1, 2, 3, 4, 5, 6) == [Done] * 4 + [BudgetSpent] * 2
    assert await tag(503, 1, 2) == [Done] * 2, "who has something left pays for what both watch"
    assert await tag(502, 1, 2, 3) == [Done] * 2 + [BudgetSpent]
    used = {tenant: await used_since(desk.database, tenant, YESTERDAY) for tenant in (noisy, quiet)}
    assert {tenant: [one.calls for one in rows] for tenant, rows in used.items()} == {noisy: [4], quiet: [4]}


async def test_n18_posts_of_others_are_indexed_while_one_tenant_waits(
    openai: OpenAi, make: Make, budget: Any, desk: Desk, indexes_of: Callable[[Models], Indexes]
) -> None:
    noisy, quiet = [await desk.tenant(name) for name in ("noisy", "quiet")]
    for channel, tenant in ((501, noisy), (502, quiet)):
        await desk.open_channel(channel, username=f"n{channel}")
        await desk.watch(tenant, channel)
    shared = budget(10_000)
    with paid_by([noisy]):
        async with shared.paid(Identity("openai", "x"), "tag", FREE, 1) as spending:
            spending.add(5_000, 0)
    await desk.save(post(1, WEATHER, channel_id=501))
    await desk.save(post(1, FOOTBALL, channel_id=502))
    tagging = Tagging(make(openai).tagger, desk.budgets, utc_now)
    tagged = events_of(await tag_posts(await desk.told(POSTS_PARSED), tagging=tagging))
    enriched = [PostEnriched(**{one.name: getattr(event, one.name) for one in fields(event)}) for event in tagged]
    outcomes = await index_posts(enriched, indexes=indexes_of(make(openai, budget=shared)))
    assert {event.channel_id: type(one) for event, one in zip(enriched, outcomes, strict=True)} == {
        501: BudgetSpent,
        502: Done,
    }
