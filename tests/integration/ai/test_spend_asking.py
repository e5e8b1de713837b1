"""Questions and searches when the day's tokens are used up: told to people, and searched by words alone."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from fastapi import FastAPI

from telegram_assistant.ai.providers import Models
from telegram_assistant.ai.spend import FREE, ModelBudget, ModelLimits
from telegram_assistant.domain.models import Identity
from telegram_assistant.index.edge_vectors import EdgeVectors
from telegram_assistant.index.vectors import Model, Point
from telegram_assistant.search.ask import Asking
from telegram_assistant.search.planning import Meaning
from telegram_assistant.services.services import Services
from telegram_assistant.stores.postgres.budgets import Budgets, ModelUsage
from telegram_assistant.wiring.models import open_search
from telegram_assistant.wiring.runtime import utc_now
from tests.integration.search.archive import NEWS, POSTED, SYSTEM
from tests.pipeline_state import used_since

pytestmark = pytest.mark.integration

OpenAi = Any  # of conftest.py, which cannot be imported
Town = Any
ClientOf = Any
TEXT = "Сильный снегопад пришёл в Москву, и порывы ветра валят деревья."
QUESTION = "Снегопад в Москве"
ASK = "/api/v1/ask"
LIMIT = 2_000
AGES = datetime(2020, 1, 1, tzinfo=UTC)


@dataclass
class Asked:
    """The API over a remote model with a limit."""

    budget: ModelBudget

    async def use_up(self) -> None:
        who = Identity("openai", "gpt-4o-mini")
        async with self.budget.paid(who, "tag", FREE, 1) as spending:
            spending.add(LIMIT, 0)


@pytest.fixture
async def asked(
    town: Town, services: Services, app: FastAPI, openai: OpenAi, make: Callable[..., Models]
) -> AsyncIterator[Asked]:
    """One post, found by its words and by the vector of the fake model."""
    post_id = await town.archive.post(1, TEXT, channel=NEWS)
    openai.brain = lambda _system, _data: json.dumps({"sentences": [{"text": TEXT, "sources": ["1"]}]})
    usage = ModelUsage(services.database, utc_now)
    budget = ModelBudget(Budgets(services.database), usage, ModelLimits(tokens_per_day=LIMIT))
    models, vectors = make(openai, budget=budget), EdgeVectors(services.settings.tga_data_dir / "vectors")
    model = Model(str(models.embedder.identity), models.embedder.size)
    await vectors.open(SYSTEM, model)
    vector = [1.0] * models.embedder.size
    point = Point(post_id=post_id, vector=vector, text_hash="", channel_id=NEWS, posted_at=POSTED)
    await vectors.put(SYSTEM, model, [point])
    meaning = Meaning(vectors, models.embedder, patience=60)
    search = open_search(services.database, clock=utc_now, meaning=meaning, lexicon=town.archive.lexicon)
    app.state.services = replace(services, search=search, asking=Asking(search, models.answerer))
    yield Asked(budget)
    await vectors.close()


async def test_a_question_is_answered_and_written_down_for_its_tenant(
    town: Town, client_of: ClientOf, asked: Asked, openai: OpenAi
) -> None:
    answer = (await client_of(town.member).post(ASK, json={"question": QUESTION})).json()
    assert answer["answered"] is True, answer
    assert answer["without_meaning"] == ""
    assert [shown(one) for one in await used_since(town.archive.database, SYSTEM, AGES)] == [
        ("answer", "gpt-4o-mini", 1, 431, 0.462),
        ("search", "text-embedding-3-small", 1, 7, 0.007),
    ]
    await client_of(town.other).post(ASK, json={"question": QUESTION})  # finds no post: there is nothing to read
    other = await used_since(town.archive.database, town.other.tenant_id, AGES)
    assert [shown(one) for one in other] == [("search", "text-embedding-3-small", 1, 7, 0.007)]
    assert (await asked.budget.today()).tokens == 445
    assert len(openai.asked) == 3


def shown(one: Any) -> tuple[str, str, int, int, float]:
    return one.ability, one.model, one.calls, one.tokens, round(one.cost, 6)


async def test_when_the_day_is_used_up_a_question_says_until_when(
    town: Town, client_of: ClientOf, asked: Asked, openai: OpenAi
) -> None:
    await asked.use_up()
    until = (await asked.budget.today()).resets_at
    answer = await client_of(town.member).post(ASK, json={"question": QUESTION})
    assert answer.status_code == 503
    assert answer.headers["content-type"] == "application/problem+json"
    assert f"wait until {until:%Y-%m-%d} 00:00 UTC, or raise MODEL_TOKENS_PER_DAY" in answer.json()["detail"]
    assert 0 < int(answer.headers["retry-after"]) <= 86_400 + 900
    assert openai.asked == []


@pytest.mark.parametrize(
    "language, words",
    [
        ("en", "tokens for the language model are used up. There are new ones at 00:00 UTC"),
        ("ru", "Токены языковой модели на сегодня израсходованы. Новые будут в 00:00 UTC"),
    ],
)
async def test_the_page_says_so_in_the_reader_s_language(
    town: Town, client_of: ClientOf, asked: Asked, language: str, words: str
) -> None:
    await asked.use_up()
    headers = {"HX-Request": "true", "Accept-Language": language}
    client = client_of(town.member, page=True)
    answer = await client.get("/ask/answer", params={"q": QUESTION}, headers=headers)
    assert answer.status_code == 503
    assert words in answer.text
    assert "<html" not in answer.text


async def test_a_search_goes_on_by_words_alone_and_says_so(
    town: Town, client_of: ClientOf, asked: Asked, openai: OpenAi
) -> None:
    client, params = client_of(town.member), {"q": QUESTION}
    (hit,) = (await client.get("/api/v1/search", params=params)).json()["items"]
    assert hit["by_meaning"] is True
    await asked.use_up()
    found = (await client.get("/api/v1/search", params=params)).json()
    (hit,) = found["items"]
    assert (hit["by_words"], hit["by_meaning"]) == (True, False)
    assert "raise MODEL_TOKENS_PER_DAY" in found["without_meaning"]
    page = await client_of(town.member, page=True).get("/search", params=params)
    assert page.status_code == 200
    assert "MODEL_TOKENS_PER_DAY" in page.text
    assert len(openai.asked) == 1
