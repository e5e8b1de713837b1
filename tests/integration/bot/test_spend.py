"""The bot when the day's tokens of a remote model are used up: when to come again, in the reader's language."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from telegram_assistant.ai.providers import ModelsConfig, Provider, build_models
from telegram_assistant.ai.remote.connections import OpenAiServer
from telegram_assistant.ai.spend import ModelBudget, ModelLimits
from telegram_assistant.search.ask import Asking
from telegram_assistant.services.services import Services
from telegram_assistant.stores.postgres.budgets import Budgets
from tests.integration.bot.bot_api import Person

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("bot")]

Town = Any  # of a conftest.py, which cannot be imported


class NoEyes:
    """Nothing is described here."""

    identity = property()

    async def describe(self, picture: object) -> Any:
        raise AssertionError(picture)


@pytest.fixture
async def services(services: Services) -> AsyncIterator[Services]:
    """Answers come from a server that must not be asked: there is none."""
    config = ModelsConfig(answer=Provider.OPENAI, openai_server=OpenAiServer(base_url="http://127.0.0.1:1/v1"))
    models = build_models(
        config, NoEyes(), ModelBudget(Budgets(services.database), limits=ModelLimits(tokens_per_day=0))
    )
    yield replace(services, asking=Asking(services.search, models.answerer))
    await models.close()


async def test_a_question_is_told_when_to_come_again(ann: Person, town: Town, link: Any) -> None:
    reader = await link(town.member, 333, "ru")
    await town.archive.post(1, "Oil is dear in the desert this year.")
    told = (await ann.asks("/ask oil in the desert")).text
    assert "There are new ones at 00:00 UTC" in told
    assert "MODEL_TOKENS_PER_DAY" in told
    assert "Новые будут в 00:00 UTC" in (await reader.asks("/ask oil in the desert")).text
    assert "1 story" in (await ann.asks("/search oil")).text
