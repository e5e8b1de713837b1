"""Questions through the API: answers with their sources, or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from fastapi import FastAPI

from telegram_assistant.domain.models import Answer, Identity, Passage, Sentence
from telegram_assistant.errors import Retry
from telegram_assistant.search.ask import Asking
from telegram_assistant.services.services import Services
from tests.integration.search.archive import SPORT

pytestmark = pytest.mark.integration

Town = Any  # of conftest.py, which cannot be imported
ClientOf = Any
ASK = "/api/v1/ask"
TRUE = "Футбольный клуб «Спартак» обыграл «Зенит» в финале Кубка России. Вратарь отбил два пенальти."


async def test_an_answer_names_its_posts(town: Town, client_of: ClientOf) -> None:
    post = await town.archive.post(1, TRUE, channel=SPORT)
    client = client_of(town.member)
    question = {"question": "Кто обыграл Зенит в финале Кубка России?"}
    answer = (await client.post(ASK, json=question)).json()
    assert answer["answered"] is True
    assert "Спартак" in answer["sentences"][0]["text"]
    assert answer["sentences"][0]["sources"] == [1]
    assert [source["id"] for source in answer["sources"]] == [str(post)]
    other = (await client_of(town.other).post(ASK, json=question)).json()
    assert other == {
        "answered": False,
        "sentences": [],
        "sources": [],
        "quotes": [],
        "looked_at": 0,
        "notes": [],
        "without_meaning": "",
    }


async def test_what_is_not_in_the_channels_is_not_answered(town: Town, client_of: ClientOf) -> None:
    await town.archive.post(1, TRUE, channel=SPORT)
    for question in ("Сколько стоят огурцы на рынке?", "", "\0", "?" * 10_000, '"', "-снег", "' OR 1=1; --"):
        answer = await client_of(town.member).post(ASK, json={"question": question})
        assert answer.status_code == 200, question
        assert answer.json()["answered"] is False


async def test_wrong_requests_are_told(town: Town, client_of: ClientOf) -> None:
    client = client_of(town.member)
    for body in (b'{"question": "\\ud800"}', b"{}", b"nonsense", b'{"question": 1}', b'{"question": null}'):
        answer = await client.post(ASK, content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 422, body
    long = await client.post(ASK, json={"question": "x" * 20_000})
    assert long.status_code == 422
    assert (await client_of().post(ASK, json={"question": "?"})).status_code == 401


class Away:
    """A model that is down."""

    identity = Identity("remote", "away")

    async def answer(self, question: str, passages: Sequence[Passage]) -> Answer:
        raise Retry(f"no answer to {question} from {len(passages)} posts", after=7)


class Fluent:
    """A model with sentences of its own."""

    identity = Identity("remote", "fluent")

    async def answer(self, question: str, passages: Sequence[Passage]) -> Answer:
        said = Sentence(text=f"{question} победил.", sources=(passages[0].key, "invented"))
        return Answer(sentences=(said, Sentence(text="!", sources=())))


async def test_a_model_that_is_away_is_told_with_when_to_try_again(
    town: Town, client_of: ClientOf, services: Services, app: FastAPI
) -> None:
    await town.archive.post(1, TRUE, channel=SPORT)
    app.state.services = replace(services, asking=Asking(services.search, Away()))
    answer = await client_of(town.member).post(ASK, json={"question": "Спартак"})
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "7"
    app.state.services = replace(services, asking=Asking(services.search, Fluent()))
    told = (await client_of(town.member).post(ASK, json={"question": "Спартак"})).json()
    assert told["sentences"] == [{"text": "Спартак победил.", "sources": [1]}]
