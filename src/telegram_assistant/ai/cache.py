"""Results that were paid for once: kept by ability, input and identity. Only successes are kept."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Generic, Protocol, TypeVar

import msgspec

from telegram_assistant.domain.models import (
    Answer,
    Answerer,
    Describer,
    Embedded,
    Embedder,
    Identity,
    Passage,
    Picture,
    Seen,
    Tagged,
    Tagger,
    Usage,
    has_direction,
)
from telegram_assistant.log import get_logger

Kept = TypeVar("Kept", Tagged, Seen, Answer)
Model = TypeVar("Model", bound=Tagger | Describer | Answerer | Embedder)
_FREE = Usage()
_logger = get_logger(__name__)


class ResultCache(Protocol):
    """Where results are kept. A `get` that fails should raise Retry or say None, as the store prefers."""

    async def get(self, key: str) -> bytes | None: ...

    async def put(self, key: str, value: bytes) -> None: ...


def cache_key(ability: str, identity: Identity, *parts: str) -> str:
    """`ability:sha256` of the identity and the input; every part is closed by its length, so that none flows over."""
    digest = hashlib.sha256()
    for part in (identity.provider, identity.model, identity.prompt, *parts):
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "big") + raw)
    return f"{ability}:{digest.hexdigest()}"


class _Cached(Generic[Model]):
    """A model that is not asked twice for the same."""

    def __init__(self, model: Model, cache: ResultCache) -> None:
        self._model = model
        self._cache = cache

    @property
    def identity(self) -> Identity:
        return self._model.identity

    async def _once(self, key: str, form: type[Kept], ask: Callable[[], Awaitable[Kept]]) -> Kept:
        known = _read(await self._cache.get(key), form)
        if known is not None:
            return known
        found = await ask()
        await self._cache.put(key, msgspec.json.encode(replace(found, usage=_FREE)))
        return found


class CachedTagger(_Cached[Tagger]):
    """A Tagger that does not ask twice."""

    async def tag(self, text: str, seen: str = "") -> Tagged:
        key = cache_key("tag", self.identity, text, seen)
        return await self._once(key, Tagged, lambda: self._model.tag(text, seen))


class CachedDescriber(_Cached[Describer]):
    """A Describer that looks once at the same picture, in all channels."""

    async def describe(self, picture: Picture) -> Seen:
        key = cache_key("describe", self.identity, picture.sha256)
        return await self._once(key, Seen, lambda: self._model.describe(picture))


class CachedAnswerer(_Cached[Answerer]):
    """An Answerer that answers the same question from the same passages once."""

    async def answer(self, question: str, passages: Sequence[Passage]) -> Answer:
        parts = [part for passage in passages for part in (passage.key, passage.text)]
        key = cache_key("answer", self.identity, question, *parts)
        return await self._once(key, Answer, lambda: self._model.answer(question, passages))


class CachedEmbedder(_Cached[Embedder]):
    """An Embedder that makes the vector of a text once."""

    @property
    def size(self) -> int:
        return self._model.size

    async def embed(self, texts: Sequence[str]) -> Embedded:
        keys = {text: cache_key("embed", self.identity, str(self.size), text) for text in texts}
        known = {text: vector for text, key in keys.items() if (vector := self._vector(await self._cache.get(key)))}
        missing = [text for text in keys if text not in known]
        usage, asked = _FREE, 0
        if missing:
            made = await self._model.embed(missing)
            usage, asked = made.usage, made.asked
            for text, vector in zip(missing, made.vectors, strict=True):
                known[text] = vector
                await self._cache.put(keys[text], array("f", vector).tobytes())
        return Embedded(vectors=tuple(known[text] for text in texts), usage=usage, asked=asked)

    def _vector(self, value: bytes | None) -> tuple[float, ...] | None:
        """What an older version of ours kept of a model's rubbish is asked for again."""
        if value is None or len(value) != 4 * self.size:
            return None
        vector = tuple(array("f", value))
        return vector if has_direction(vector) else None


def _read(value: bytes | None, form: type[Kept]) -> Kept | None:
    """What an older version of ours kept in another form is made again."""
    if value is None:
        return None
    try:
        return msgspec.json.decode(value, type=form)
    except msgspec.DecodeError as exc:
        _logger.warning("a kept result cannot be read and is made again", reason=str(exc))
        return None
