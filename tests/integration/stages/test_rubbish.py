"""A model that answers rubbish (N19): posts wait for it and come back by themselves. One that alone is to blame keeps
none of the others waiting, and ends with the dead letters."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import pytest_asyncio

from telegram_assistant.ai.providers import OPENAI_DEFAULTS, Models, ModelsConfig, Provider, build_models
from telegram_assistant.ai.remote.connections import OpenAiServer
from telegram_assistant.ai.remote.gate import CallLimits
from telegram_assistant.bus.consumer import Consumer, ConsumerTimes
from telegram_assistant.bus.stage import Handler, Stage
from telegram_assistant.bus.supervisor import Supervisor
from telegram_assistant.domain.events import PostEnriched, PostParsed, Trigger
from telegram_assistant.domain.retries import Backoff
from telegram_assistant.names import POSTS_ENRICHED, POSTS_PARSED
from telegram_assistant.stages.indexing import Indexes, index_posts
from telegram_assistant.stages.tagging import Tagging, tag_posts
from telegram_assistant.wiring.runtime import utc_now
from tests.integration.ai.conftest import KEY, FakeOpenAi, NoEyes, listening
from tests.integration.stages.desk import SYSTEM, Desk, post
from tests.integration.stages.loop import eventually
from tests.metrics import sample

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="session")]

LIMITS = CallLimits(backoff=Backoff(base=0.01, cap=0.02), failures=3, shut=0.05, longest_shut=0.2)
SANE = json.dumps({"tags": ["погода"], "topics": [], "entities": [], "language": "ru"})
RUBBISH = "I am a teapot \u2615"
POISON = "Отравленный пост"
WORDS = "Сегодня в городе хорошая погода, синоптики обещают тепло и солнце до конца недели, без дождей и ветра"


@pytest_asyncio.fixture(loop_scope="session")
async def server() -> AsyncIterator[FakeOpenAi]:
    fake = FakeOpenAi()
    async with listening(fake):
        yield fake


@pytest_asyncio.fixture(loop_scope="session")
async def models(server: FakeOpenAi) -> AsyncIterator[Models]:
    config = ModelsConfig(
        tag=Provider.OPENAI,
        embed=Provider.OPENAI,
        openai_server=OpenAiServer(base_url=f"{server.url}/v1", api_key=KEY, timeout=30),
        openai=replace(OPENAI_DEFAULTS, embedding_size=server.size, limits=LIMITS),
    )
    made = build_models(config, NoEyes())
    yield made
    await made.close()


class Running:
    """A stage in the real loop while the test goes on."""

    def __init__(self, desk: Desk, event: str, handler: Handler) -> None:
        stage = Stage(name="stage", handlers={event: handler}, concurrency=1, first_delay=0.01, longest_delay=0.05)
        self._consumer = Consumer(
            desk.redis,
            stage,
            name="n19",
            letters=desk.letters,
            steps=desk.steps,
            times=ConsumerTimes(block_ms=20),
        )
        self._supervisor = Supervisor()

    async def __aenter__(self) -> None:
        await self._supervisor.start("stage", self._consumer.run)

    async def __aexit__(self, *_: object) -> None:
        await self._supervisor.stop()
        await self._consumer.close()


async def letters(desk: Desk) -> list[Any]:
    return await desk.rows("SELECT reason, attempts FROM dead_letters")


async def rubbish_above(ability: str, count: float) -> bool:
    return sample("ai_rubbish_total", provider="openai", ability=ability) > count


async def is_tagged(desk: Desk, posts: int) -> bool:
    done = "SELECT count(DISTINCT post_id) FROM post_steps WHERE stage = 'stage' AND outcome = 'done'"
    return int((await desk.rows(done))[0][0]) == posts


def enriched(event: PostParsed) -> PostEnriched:
    return PostEnriched(
        trace_id=event.trace_id,
        occurred_at=event.occurred_at,
        idempotency_key=f"enriched:{event.post_id}",
        tenant_id=event.tenant_id,
        channel_id=event.channel_id,
        post_id=event.post_id,
        content_hash=event.content_hash,
        tags=(),
        tags_hash="",
        topics=(),
        entities=(),
        language="ru",
        pages=(),
        provider="local",
        model="m",
        latency_ms=1,
        trigger=Trigger.INITIAL,
    )


async def test_n19_posts_wait_while_a_model_answers_rubbish_and_come_back_when_it_is_sane(
    desk: Desk, server: FakeOpenAi, models: Models
) -> None:
    server.brain = lambda _system, _data: RUBBISH
    before = sample("ai_rubbish_total", provider="openai", ability="tag")
    tagging = Tagging(models.tagger, desk.budgets, utc_now)
    await desk.save(*(post(number, f"{WORDS} {number}") for number in range(1, 21)))
    await desk.told(POSTS_PARSED)  # relayed
    async with Running(desk, POSTS_PARSED, partial(tag_posts, tagging=tagging)):
        await eventually(lambda: rubbish_above("tag", before + 25))
        assert await letters(desk) == []
        assert "rubbish" in models.troubles()["tag"]
        server.brain = lambda _system, _data: SANE
        await eventually(lambda: is_tagged(desk, 20))
    assert await letters(desk) == []
    assert models.troubles() == {}


async def test_n19_a_post_that_alone_gets_rubbish_is_a_dead_letter_and_the_others_are_tagged(
    desk: Desk, server: FakeOpenAi, models: Models
) -> None:
    server.brain = lambda _system, data: RUBBISH if POISON in data else SANE
    tagging = Tagging(models.tagger, desk.budgets, utc_now)
    await desk.save(post(1, f"{POISON}. {WORDS}"), *(post(number, f"{WORDS} {number}") for number in range(2, 6)))
    await desk.told(POSTS_PARSED)  # relayed
    async with Running(desk, POSTS_PARSED, partial(tag_posts, tagging=tagging)):
        await eventually(lambda: is_tagged(desk, 4))
        for number in range(6, 100):  # life goes on
            if await letters(desk):
                break
            await desk.save(post(number, f"{WORDS} {number}"))
            await desk.told(POSTS_PARSED)  # relayed
            await eventually(partial(is_tagged, desk, number - 1))
    [(reason, attempts)] = await letters(desk)
    assert "form" in reason
    assert attempts == Stage(name="", handlers={}).attempts
    assert models.troubles() == {}


@pytest.mark.parametrize("vector", [[0.0] * 8, [1e308] * 8, [1.0] * 7, []], ids=["zeros", "endless", "short", "none"])
async def test_n19_vectors_that_are_rubbish_are_never_counted_as_done(
    desk: Desk, server: FakeOpenAi, models: Models, indexes: Indexes, vector: list[float]
) -> None:
    """One text of a batch is answered so: the others are indexed, and it is not."""
    sane = FakeOpenAi.vector
    server.vector = lambda text: vector if POISON in text else sane(server, text)  # type: ignore[method-assign]  # a server that misbehaves
    mine = replace(indexes, embedder=models.embedder)
    await desk.save(post(1, f"{POISON}. {WORDS}"), *(post(number, f"{WORDS} {number}") for number in range(2, 6)))
    events = [enriched(event) for event in await desk.told(POSTS_PARSED)]
    await desk.publish(POSTS_ENRICHED, events)
    async with Running(desk, POSTS_ENRICHED, partial(index_posts, indexes=mine)):
        await eventually(lambda: is_tagged(desk, 4))
    found = await mine.vectors.hashes(SYSTEM, mine.model, [event.post_id for event in events])
    assert set(found) == {event.post_id for event in events[1:]}
