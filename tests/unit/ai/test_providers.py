"""Settings become models, or one clear sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from telegram_assistant.ai.providers import ModelsConfig, Provider, build_models
from telegram_assistant.ai.remote.connections import GigaChatAccount, OpenAiServer
from telegram_assistant.domain.models import Classification, Identity, Picture, Seen
from telegram_assistant.errors import Fatal

pytestmark = pytest.mark.unit


class Eyes:
    """Stands for the local describer, which is built elsewhere."""

    identity = Identity("local", "eyes")

    async def describe(self, picture: Picture) -> Seen:
        return Seen(classification=Classification.OTHER, provider="local", model=picture.mime)


async def test_by_default_everything_is_local_and_nothing_is_started() -> None:
    models = build_models(ModelsConfig(), Eyes())
    abilities = (models.tagger, models.describer, models.embedder, models.answerer)
    assert {ability.identity.provider for ability in abilities} == {"local"}
    assert models.embedder.size == 768
    assert models.taxonomy.version in models.tagger.identity.prompt
    assert models.troubles() == {}
    await models.close()


async def test_each_ability_has_its_own_provider() -> None:
    config = ModelsConfig(
        tag=Provider.GIGACHAT,
        embed=Provider.OPENAI,
        answer=Provider.OPENAI,
        gigachat_account=GigaChatAccount(credentials="a2V5"),
        openai_server=OpenAiServer(base_url="http://127.0.0.1:11434/v1"),
    )
    models = build_models(config, Eyes())
    assert models.tagger.identity.provider == "gigachat"
    assert models.describer.identity.model == "eyes"
    assert models.embedder.identity == Identity("openai", "text-embedding-3-small")
    assert models.answerer.identity.prompt
    assert set(models.gates) == {"tag", "embed", "answer"}
    await models.close()


@pytest.mark.parametrize(
    "config,told",
    [
        (ModelsConfig(tag=Provider.GIGACHAT), "GIGACHAT_CREDENTIALS"),
        (
            ModelsConfig(embed=Provider.GIGACHAT, gigachat_account=GigaChatAccount(credentials="")),
            "GIGACHAT_CREDENTIALS",
        ),
        (ModelsConfig(answer=Provider.OPENAI), "OPENAI_BASE_URL"),
        (ModelsConfig(answer=Provider.OPENAI, openai_server=OpenAiServer(base_url="localhost:1")), "OPENAI_BASE_URL"),
        (
            ModelsConfig(describe=Provider.OPENAI, openai_server=OpenAiServer(base_url="https://api.openai.com/v1")),
            "OPENAI_API_KEY",
        ),
        (ModelsConfig(topics_file=Path("/nowhere.toml")), r"nowhere\.toml"),
        (
            ModelsConfig(
                tag=Provider.GIGACHAT, gigachat_account=GigaChatAccount(credentials="x", ca_file=Path("/nowhere.pem"))
            ),
            r"nowhere\.pem",
        ),
    ],
)
def test_what_is_missing_is_named(config: ModelsConfig, told: str) -> None:
    with pytest.raises(Fatal, match=told):
        build_models(config, Eyes())


def test_keys_are_not_shown() -> None:
    assert "secret" not in repr(GigaChatAccount(credentials="secret"))
    assert "secret" not in repr(OpenAiServer(base_url="http://x", api_key="secret"))
