"""Which model does what: built from the settings, each ability by its own provider."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from urllib.parse import urlsplit

from telegram_assistant.ai.cache import CachedAnswerer, CachedDescriber, CachedEmbedder, CachedTagger, ResultCache
from telegram_assistant.ai.checks import Checks, Translations
from telegram_assistant.ai.local.provider import LocalAnswerer, LocalEmbedder, LocalTagger, ModelProcess
from telegram_assistant.ai.remote.connections import Connection, GigaChatAccount, OpenAiServer
from telegram_assistant.ai.remote.gate import CallLimits, Gate
from telegram_assistant.ai.remote.models import (
    Conversation,
    RemoteAnswerer,
    RemoteDescriber,
    RemoteEmbedder,
    RemoteTagger,
)
from telegram_assistant.ai.remote.openai_compatible import OpenAiConnection
from telegram_assistant.ai.spend import ModelBudget, Price
from telegram_assistant.domain.models import Answerer, Describer, Embedder, Tagger
from telegram_assistant.errors import Fatal
from telegram_assistant.language.inflection import Inflection
from telegram_assistant.language.stopwords import StopWords
from telegram_assistant.language.taxonomy import Taxonomy, load_taxonomy

_OPENAI_HOST = "api.openai.com"
_PIECES = {"gigachat": 1_200, "openai": 6_000}  # characters of a text that their embedding models take for certain


class Provider(StrEnum):
    """Who answers."""

    LOCAL = "local"
    GIGACHAT = "gigachat"
    OPENAI = "openai"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteConfig:
    """A remote provider's models, prices and limits."""

    model: str
    vision_model: str
    embedding_model: str
    embedding_size: int
    price: Price = Price()  # noqa: RUF009 - frozen
    limits: CallLimits = CallLimits()  # noqa: RUF009 - frozen


GIGACHAT_DEFAULTS = RemoteConfig(
    model="GigaChat-2",
    vision_model="GigaChat-2-Max",
    embedding_model="Embeddings",
    embedding_size=1024,
    limits=CallLimits(concurrency=1),  # a personal account has one stream
)
OPENAI_DEFAULTS = RemoteConfig(
    model="gpt-4o-mini",
    vision_model="gpt-4o-mini",
    embedding_model="text-embedding-3-small",
    embedding_size=1536,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelsConfig:
    """The provider of each ability, and what the providers need."""

    tag: Provider = Provider.LOCAL
    describe: Provider = Provider.LOCAL
    embed: Provider = Provider.LOCAL
    answer: Provider = Provider.LOCAL
    topics_file: Path | None = None
    gigachat_account: GigaChatAccount | None = None
    gigachat: RemoteConfig = GIGACHAT_DEFAULTS
    openai_server: OpenAiServer | None = None
    openai: RemoteConfig = OPENAI_DEFAULTS

    @property
    def used(self) -> frozenset[Provider]:
        return frozenset((self.tag, self.describe, self.embed, self.answer))


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """One of each ability, ready to be asked; `close` ends connections and processes."""

    tagger: Tagger
    describer: Describer
    embedder: Embedder
    answerer: Answerer
    taxonomy: Taxonomy
    gates: Mapping[str, Gate] = field(default_factory=dict)  # by ability, of the remote ones
    closers: tuple[Callable[[], Awaitable[None]], ...] = ()

    async def close(self) -> None:
        for closer in self.closers:
            await closer()

    def troubles(self) -> dict[str, str]:
        """By ability, why its model is not asked now: for health. Those that need a person say so."""
        return {ability: gate.trouble for ability, gate in self.gates.items() if gate.trouble}

    def cached(self, cache: ResultCache) -> Models:
        """The same, asking remote models only for what is not kept yet: asking one here costs no more than looking."""
        return replace(
            self,
            tagger=CachedTagger(self.tagger, cache) if _is_remote(self.tagger) else self.tagger,
            describer=CachedDescriber(self.describer, cache) if _is_remote(self.describer) else self.describer,
            embedder=CachedEmbedder(self.embedder, cache) if _is_remote(self.embedder) else self.embedder,
            answerer=CachedAnswerer(self.answerer, cache) if _is_remote(self.answerer) else self.answerer,
        )


def _is_remote(model: Tagger | Describer | Embedder | Answerer) -> bool:
    return model.identity.provider != Provider.LOCAL


def build_models(config: ModelsConfig, local_describer: Describer, budget: ModelBudget | None = None) -> Models:
    """Nothing is connected or started yet. Raises Fatal for what is missing in the settings.

    The local describer is given, for it has settings of its own; who made it closes it. `budget` is of the remote
    models.
    """
    return _Builder(config, local_describer, budget).build()


class _Builder:
    """Makes what the abilities share once: the worker process, the connections, the checks."""

    def __init__(self, config: ModelsConfig, local_describer: Describer, budget: ModelBudget | None) -> None:
        self._config = config
        self._budget = budget
        self._local_describer = local_describer
        self._taxonomy = load_taxonomy(config.topics_file)
        self._connections: dict[Provider, Connection] = {}
        if Provider.GIGACHAT in config.used:
            self._connections[Provider.GIGACHAT] = _gigachat(config.gigachat_account)
        if Provider.OPENAI in config.used:
            self._connections[Provider.OPENAI] = _openai(config.openai_server)
        self._process = ModelProcess(config.topics_file)
        self._closers = [self._process.close, *(connection.close for connection in self._connections.values())]
        self._gates: dict[str, Gate] = {}
        inflection = Inflection()
        self._checks = Checks(self._taxonomy, inflection, StopWords(inflection))

    def build(self) -> Models:
        return Models(
            tagger=self._tagger(self._config.tag),
            describer=self._describer(self._config.describe),
            embedder=self._embedder(self._config.embed),
            answerer=self._answerer(self._config.answer),
            taxonomy=self._taxonomy,
            gates=self._gates,
            closers=tuple(self._closers),
        )

    def _tagger(self, provider: Provider) -> Tagger:
        if provider is Provider.LOCAL:
            return LocalTagger(self._process, self._taxonomy)
        remote = self._remote(provider)
        return RemoteTagger(self._talk(provider, "tag", remote.model, remote.price), self._checks)

    def _describer(self, provider: Provider) -> Describer:
        if provider is Provider.LOCAL:
            return self._local_describer
        remote = self._remote(provider)
        talk = self._talk(provider, "describe", remote.vision_model, remote.price)
        describer = RemoteDescriber(talk, self._checks)
        self._closers.append(describer.close)
        return describer

    def _embedder(self, provider: Provider) -> Embedder:
        if provider is Provider.LOCAL:
            return LocalEmbedder(self._process)
        remote = self._remote(provider)
        model = self._connections[provider].vectors(remote.embedding_model)
        gate, size, piece = self._gate(provider, "embed"), remote.embedding_size, _PIECES[provider]
        return RemoteEmbedder(model, gate, remote.price, self._budget, size=size, piece=piece)

    def _answerer(self, provider: Provider) -> Answerer:
        if provider is Provider.LOCAL:
            return LocalAnswerer(self._process)
        remote = self._remote(provider)
        talk = self._talk(provider, "answer", remote.model, remote.price)
        return RemoteAnswerer(talk, self._checks, Translations(LocalEmbedder(self._process)))

    def _talk(self, provider: Provider, ability: str, model: str, price: Price) -> Conversation:
        chat, gate = self._connections[provider].chat(model), self._gate(provider, ability)
        return Conversation(chat, gate, price, self._budget)

    def _gate(self, provider: Provider, ability: str) -> Gate:
        self._gates[ability] = Gate(provider, ability, self._remote(provider).limits)
        return self._gates[ability]

    def _remote(self, provider: Provider) -> RemoteConfig:
        return self._config.gigachat if provider is Provider.GIGACHAT else self._config.openai


def _gigachat(account: GigaChatAccount | None) -> Connection:
    if account is None or not account.credentials:
        raise Fatal("GigaChat is chosen for a model, but it has no key: set GIGACHAT_CREDENTIALS, or choose local")
    from telegram_assistant.ai.remote.gigachat import GigaChatConnection  # noqa: PLC0415 - its package takes 0.4 s to import

    return GigaChatConnection(account)


def _openai(server: OpenAiServer | None) -> Connection:
    address = urlsplit(server.base_url) if server is not None else None
    if server is None or address is None or address.scheme not in {"http", "https"} or not address.hostname:
        raise Fatal("an OpenAI-compatible server is chosen for a model, but OPENAI_BASE_URL is no http(s) address")
    if address.hostname == _OPENAI_HOST and not server.api_key:
        raise Fatal("OpenAI is chosen for a model, but it has no key: set OPENAI_API_KEY, or choose local")
    return OpenAiConnection(server)
