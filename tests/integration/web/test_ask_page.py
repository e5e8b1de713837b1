"""The page that answers: the answer with its posts, or that there is none."""

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

pytestmark = pytest.mark.integration

Town = Any  # of conftest.py, which cannot be imported
ClientOf = Any


class Model:
    """Says what the test wants."""

    identity = Identity("remote", "of a test")

    def __init__(self, *said: str, away: bool = False) -> None:
        self._said = said
        self._away = away

    async def answer(self, question: str, passages: Sequence[Passage]) -> Answer:
        if self._away:
            raise Retry(f"nobody answers {question!r}")
        return Answer(sentences=tuple(Sentence(text=one, sources=(passages[0].key,)) for one in self._said))


@pytest.fixture
def says(app: FastAPI, services: Services) -> Any:
    def says(*said: str, away: bool = False) -> None:
        app.state.services = replace(services, asking=Asking(services.search, Model(*said, away=away)))

    return says


async def test_the_page_is_there_at_once_and_asks_for_the_answer(town: Town, client_of: ClientOf) -> None:
    html = (await client_of(town.member, page=True).get("/ask", params={"q": "Кто <b>выиграл</b>?"})).text
    assert 'hx-get="/ask/answer?q=' in html
    assert "Reading your channels" in html
    assert "<b>выиграл" not in html


async def test_an_answer_has_footnotes(town: Town, client_of: ClientOf, says: Any) -> None:
    post = await town.archive.post(1, "Спартак обыграл Зенит <img src=x>")
    says("Спартак обыграл <i>Зенит</i>.")
    client = client_of(town.member, page=True)
    html = (await client.get("/ask/answer", params={"q": "Спартак"}, headers={"HX-Request": "true"})).text
    assert "Спартак обыграл Зенит" in html
    assert "<i>" not in html
    assert "&lt;i&gt;" not in html  # markup of a model is taken out, not shown
    assert 'href="#source-1"' in html
    assert 'id="source-1"' in html
    assert f"/posts/{post}" in html
    assert "<img" not in html


async def test_no_answer_is_said_kindly(town: Town, client_of: ClientOf, says: Any) -> None:
    await town.archive.post(1, "Спартак обыграл Зенит")
    says()
    client = client_of(town.member, page=True)
    html = (await client.get("/ask/answer", params={"q": "Спартак"})).text
    assert "Not in your channels" in html
    assert "1 post was read, and it does not answer this." in html
    none = (await client.get("/ask/answer", params={"q": "огурцы"})).text
    assert "No post fits the question" in none


async def test_a_model_that_is_away_is_told(town: Town, client_of: ClientOf, says: Any) -> None:
    await town.archive.post(1, "Спартак обыграл Зенит")
    says(away=True)
    headers = {"HX-Request": "true"}
    answer = await client_of(town.member, page=True).get("/ask/answer", params={"q": "Спартак"}, headers=headers)
    assert answer.status_code == 503
    assert "nobody answers" in answer.text
    assert "<html" not in answer.text
