"""What was asked once is not asked again, unless the input or the model is another."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from telegram_assistant.ai.cache import CachedAnswerer, CachedDescriber, CachedEmbedder, CachedTagger, cache_key
from telegram_assistant.domain.models import (
    Answer,
    Classification,
    Embedded,
    Entity,
    EntityKind,
    Identity,
    Ocr,
    Passage,
    Picture,
    Seen,
    Sentence,
    Tagged,
    Usage,
)
from telegram_assistant.errors import Retry

pytestmark = pytest.mark.unit

SPENT = Usage(tokens_in=10, tokens_out=5, cost=0.5, latency_ms=100)


class Store:
    """A dict as a cache."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    async def get(self, key: str) -> bytes | None:
        return self.kept.get(key)

    async def put(self, key: str, value: bytes) -> None:
        self.kept[key] = value


class Model:
    """All abilities at once; counts, and fails when told to."""

    def __init__(self, model: str = "m", prompt: str = "1") -> None:
        self.identity = Identity("openai", model, prompt)
        self.size = 2
        self.asked: list[str] = []
        self.away = False

    def _ask(self, what: str) -> None:
        if self.away:
            raise Retry("away")
        self.asked.append(what)

    async def tag(self, text: str, seen: str = "") -> Tagged:
        self._ask(text + seen)
        entities = (Entity(EntityKind.PLACE, "Москва"),)
        return Tagged(tags=("тег",), topics=("ai",), entities=entities, language="ru", usage=SPENT)

    async def describe(self, picture: Picture) -> Seen:
        self._ask(picture.sha256)
        ocr = Ocr(text="слово", engine="e", confidence=0.5)
        kind = Classification.MEME
        return Seen(classification=kind, ocr=ocr, labels=("кот",), provider="openai", model="m", usage=SPENT)

    async def embed(self, texts: Sequence[str]) -> Embedded:
        for text in texts:
            self._ask(text)
        return Embedded(vectors=tuple((float(len(text)), 0.5) for text in texts), usage=SPENT)

    async def answer(self, question: str, passages: Sequence[Passage]) -> Answer:
        self._ask(question + "".join(passage.text for passage in passages))
        return Answer(sentences=(Sentence(text="да", sources=("k",)),), usage=SPENT)


async def test_tags_are_asked_once_and_a_kept_result_cost_nothing() -> None:
    model, store = Model(), Store()
    first, again = [await CachedTagger(model, store).tag("пост", "видно") for _ in range(2)]
    assert len(model.asked) == 1
    assert first.usage == SPENT
    assert again == Tagged(tags=first.tags, topics=first.topics, entities=first.entities, language="ru")


async def test_another_text_model_or_prompt_is_asked() -> None:
    store = Store()
    for model in (Model(), Model(model="n"), Model(prompt="2")):
        for text, seen in (("ab", "c"), ("a", "bc"), ("abc", "")):
            await CachedTagger(model, store).tag(text, seen)
        assert len(model.asked) == 3
    assert len(store.kept) == 9


async def test_a_failure_is_not_kept() -> None:
    model, store = Model(), Store()
    model.away = True
    with pytest.raises(Retry):
        await CachedTagger(model, store).tag("пост")
    model.away = False
    assert (await CachedTagger(model, store).tag("пост")).tags == ("тег",)


async def test_a_picture_is_looked_at_once_by_its_hash() -> None:
    model, store = Model(), Store()
    describer = CachedDescriber(model, store)
    pictures = [Picture(sha256=sha, mime="image/jpeg", content=b"") for sha in ("aa", "aa", "bb")]
    seen = [await describer.describe(picture) for picture in pictures]
    assert model.asked == ["aa", "bb"]
    assert seen[1].ocr == seen[0].ocr
    assert seen[1].classification is Classification.MEME


async def test_answers_depend_on_the_passages() -> None:
    model, store = Model(), Store()
    answerer = CachedAnswerer(model, store)
    for text in ("x", "x", "y"):
        answer = await answerer.answer("q", [Passage(key="k", text=text)])
        assert answer.sentences[0].sources == ("k",)
    assert len(model.asked) == 2


async def test_only_the_texts_that_are_new_are_embedded_and_order_stays() -> None:
    model, store = Model(), Store()
    embedder = CachedEmbedder(model, store)
    await embedder.embed(["aa"])
    found = await embedder.embed(["bbb", "aa", "bbb"])
    assert model.asked == ["aa", "bbb"]
    assert found.vectors == ((3.0, 0.5), (2.0, 0.5), (3.0, 0.5))
    assert (await embedder.embed(["aa"])).usage == Usage()


async def test_what_cannot_be_read_is_made_again() -> None:
    model, store = Model(), Store()
    store.kept[cache_key("tag", model.identity, "пост", "")] = b'{"tags": 5}'
    store.kept[cache_key("embed", model.identity, "2", "aa")] = b"123"
    assert (await CachedTagger(model, store).tag("пост")).tags == ("тег",)
    assert (await CachedEmbedder(model, store).embed(["aa"])).vectors == ((2.0, 0.5),)


def test_a_key_names_its_ability_and_survives_odd_text() -> None:
    identity = Identity("local", "m")
    assert cache_key("tag", identity, "\ud800").startswith("tag:")
    assert cache_key("tag", identity, "x") != cache_key("embed", identity, "x")
