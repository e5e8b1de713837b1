"""The local models themselves, in their own process: Russian and English properly, others acceptably."""

# ruff: noqa: RUF001 - the posts are Russian
from __future__ import annotations

import asyncio
import math
from pathlib import Path

import pytest

from telegram_assistant.ai.local.provider import LocalAnswerer, LocalEmbedder, LocalTagger, ModelProcess
from telegram_assistant.domain.models import Entity, EntityKind, Passage
from telegram_assistant.language.inflection import Inflection, Wording
from telegram_assistant.language.taxonomy import load_taxonomy
from tests.metrics import sample

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="session")]

RATE = (
    "Совет директоров Центробанка повысил ключевую ставку до 21%. Глава регулятора Эльвира Набиуллина объяснила это "
    "высокой инфляцией. Банки в Москве уже подняли ставки по вкладам.\n\n👉 Подписаться на канал t.me/bank @bank"
)
APPLE = (
    "Apple unveils a new MacBook Pro with the M4 chip, says Tim Cook at an event in New York. Prices start at $1,599."
)
WAR = "Russia launched a massive missile strike on Ukraine's energy grid, President Volodymyr Zelensky said on Friday."
PERSON, PLACE, ORGANISATION = EntityKind.PERSON, EntityKind.PLACE, EntityKind.ORGANISATION


@pytest.fixture
def tagger(worker: ModelProcess) -> LocalTagger:
    return LocalTagger(worker, load_taxonomy())


async def test_russian_tags_topics_and_names(tagger: LocalTagger) -> None:
    tagged = await tagger.tag(RATE)
    assert tagged.language == "ru"
    assert 3 <= len(tagged.tags) <= 5
    assert "ключевая ставка" in tagged.tags  # in the nominative, though the post has the accusative
    assert tagged.topics[0] == "finance"
    assert Entity(PERSON, "Эльвира Набиуллина") in tagged.entities
    assert Entity(PLACE, "Москва") in tagged.entities
    words = " ".join(tagged.tags).lower()
    assert not any(word in words for word in ("bank", "подписаться", "канал", "http", "глава"))
    assert tagged.usage.latency_ms > 0


async def test_english_tags_topics_and_names(tagger: LocalTagger) -> None:
    tagged = await tagger.tag(APPLE)
    assert tagged.language == "en"
    assert {"MacBook Pro", "Tim Cook"} <= set(tagged.tags)
    assert tagged.topics[0] == "technology"
    assert Entity(PERSON, "Tim Cook") in tagged.entities
    assert Entity(PLACE, "New York") in tagged.entities
    war = await tagger.tag(WAR)
    assert war.topics[0] == "conflict"
    assert {Entity(PERSON, "Volodymyr Zelensky"), Entity(PLACE, "Ukraine")} <= set(war.entities)


@pytest.mark.parametrize(
    "text,language,wanted",
    [
        ("El Gobierno de España aprobó un decreto para limitar el precio del alquiler en Madrid.", "es", "Madrid"),
        ("Die Bundesregierung hat ein neues Gesetz zur Förderung erneuerbarer Energien beschlossen.", "de", "Gesetz"),
        ("Україна отримала новий пакет військової допомоги: ракети для систем HIMARS та боєприпаси.", "uk", "HIMARS"),
        ("中国政府周三宣布，将对进口汽车征收新的关税。北京表示，此举旨在保护国内产业。", "zh", "北京"),
    ],
)
async def test_other_languages_get_tags_that_stand_there(
    tagger: LocalTagger, text: str, language: str, wanted: str
) -> None:
    tagged = await tagger.tag(text)
    assert tagged.language == language
    assert len(tagged.tags) >= 3
    wording = Wording(text, Inflection())
    assert all(wording.has(tag) for tag in tagged.tags)
    assert any(wanted in tag for tag in tagged.tags)


async def test_a_word_that_says_nothing_is_no_tag(tagger: LocalTagger) -> None:
    tagged = await tagger.tag("Сегодня люди узнали новость: в этом году будет время для работы и жизни.")
    assert tagged.tags == ()


@pytest.mark.parametrize(
    "text", ["", "   ", "🔥🔥🔥", "https://t.me/x", "@user", "12345", "\x00\u200b", "-", "...", "«»"]
)
async def test_posts_without_words_have_no_tags(tagger: LocalTagger, text: str) -> None:
    tagged = await tagger.tag(text)
    assert (tagged.tags, tagged.topics, tagged.entities) == ((), (), ())


async def test_a_post_of_no_topic_has_none(tagger: LocalTagger) -> None:
    assert (await tagger.tag("Ну вот и всё. Такие дела. До завтра.")).topics == ()


async def test_what_vision_saw_is_tagged_too(tagger: LocalTagger) -> None:
    tagged = await tagger.tag("Смотрите!", seen="Скидки на ноутбуки Lenovo в магазине Ситилинк")
    assert any("Lenovo" in tag or "ноутбуки" in tag for tag in tagged.tags)


async def test_a_huge_post_is_bounded(tagger: LocalTagger) -> None:
    tagged = await tagger.tag("Биржа выросла на торгах в Лондоне. " * 50_000)
    assert len(tagged.tags) <= 5


async def test_the_topics_file_can_be_another(tmp_path: Path) -> None:
    path = tmp_path / "topics.toml"
    content = (
        '[tea]\nru = "Чай"\nen = "Tea"\nabout = ["Заварить зелёный чай в чайнике."]\nkeywords_ru = "чай, заварка"\n'
    )
    path.write_text(content, encoding="utf-8")
    process = ModelProcess(path)
    try:
        tagger = LocalTagger(process, load_taxonomy(path))
        assert (await tagger.tag("Лучший чай и свежая заварка из Китая")).topics == ("tea",)
        assert load_taxonomy(path).version in tagger.identity.prompt
    finally:
        await process.close()


async def test_vectors_are_near_in_meaning_and_across_languages(worker: ModelProcess) -> None:
    embedder = LocalEmbedder(worker)
    texts = [
        "Центробанк поднял ключевую ставку",
        "The central bank raised its key interest rate",
        "Регулятор увеличил ставку по кредитам",
        "Кот спит на окне и мурлычет",
        "",
        "Длинный текст про погоду. " * 2_000,
    ]
    embedded = await embedder.embed(texts)
    for vector in embedded.vectors:
        assert len(vector) == embedder.size
        assert math.isclose(sum(number * number for number in vector), 1.0, rel_tol=1e-4)
    rate, english, same, cat = embedded.vectors[:4]
    assert near(rate, english) > near(rate, cat) + 0.2
    assert near(rate, same) > near(rate, cat) + 0.2


async def test_a_vector_does_not_depend_on_its_neighbours(worker: ModelProcess) -> None:
    embedder = LocalEmbedder(worker)
    texts = [f"Пост номер {number} о футболе и погоде" for number in range(40)]
    together = (await embedder.embed(texts)).vectors
    alone = (await embedder.embed([texts[33]])).vectors[0]
    assert together[33] == pytest.approx(alone, abs=1e-5)
    assert (await embedder.embed([])).vectors == ()


def near(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


PASSAGES = [
    Passage(key="weather", text="В Сочи сегодня тепло и солнечно. Туристы гуляют у моря."),
    Passage(key="rate", text=RATE),
    Passage(key="repost", text="Пишут: Совет директоров Центробанка повысил ключевую ставку до 21%."),
]


async def test_an_answer_is_made_of_sentences_with_their_sources(worker: ModelProcess) -> None:
    answer = await LocalAnswerer(worker).answer("До скольки Центробанк повысил ключевую ставку?", PASSAGES)
    assert "21%" in answer.sentences[0].text
    assert answer.sentences[0].sources[0] in {"rate", "repost"}
    for sentence in answer.sentences:
        assert all(sentence.text in text(key) for key in sentence.sources[:1])


def text(key: str) -> str:
    return next(passage.text for passage in PASSAGES if passage.key == key)


async def test_an_english_question_finds_a_russian_answer(worker: ModelProcess) -> None:
    answer = await LocalAnswerer(worker).answer("To what level did the central bank raise the key rate?", PASSAGES)
    assert answer.sentences
    assert "21%" in answer.sentences[0].text


@pytest.mark.parametrize(
    "question, answer",
    [
        ("Who is the secretary general of NATO?", "Рютте"),
        ("Which country ended its defence agreement with France?", "Чада"),
        ("When does Australia's ban on social media take effect?", "через год"),
        ("How old is the secretary general of NATO?", ""),
        ("Which country ended its defence agreement with Germany?", ""),
    ],
)
async def test_names_and_words_of_an_english_question_are_known_in_russian(
    worker: ModelProcess, question: str, answer: str
) -> None:
    passages = [
        Passage(key="nato", text="Генеральный секретарь НАТО Марк Рютте призвал союзников помочь."),
        Passage(key="chad", text="Правительство Чада разрывает соглашение об оборонном сотрудничестве с Францией."),
        Passage(key="ban", text="Австралия запретила детям социальные сети. Запрет вступит в силу через год."),
    ]
    found = (await LocalAnswerer(worker).answer(question, passages)).sentences
    assert answer in " ".join(one.text for one in found)
    assert bool(found) == bool(answer)


async def test_words_that_only_ask_are_no_answer(worker: ModelProcess) -> None:
    passages = [
        Passage(key="code", text="Программа обновилась: что нового. Завтра расскажем."),
        Passage(key="show", text="В музее открылась выставка «Бумага и ветер».\nоткрылась выставка «Сто"),
    ]
    answer = await LocalAnswerer(worker).answer("Расскажи, что нового про выставку", passages)
    assert [sentence.text for sentence in answer.sentences] == ["В музее открылась выставка «Бумага и ветер»."]


async def test_who_asks_for_nothing_in_particular_hears_what_there_is(worker: ModelProcess) -> None:
    answer = await LocalAnswerer(worker).answer("Что нового?", PASSAGES)
    assert [sentence.sources for sentence in answer.sentences] == [("weather",), ("rate",), ("repost",)]


@pytest.mark.parametrize("question", ["Кто выиграл чемпионат мира по хоккею?", "Where do penguins live?", "", "???"])
async def test_what_is_not_in_the_passages_is_not_answered(worker: ModelProcess, question: str) -> None:
    assert (await LocalAnswerer(worker).answer(question, PASSAGES)).sentences == ()
    assert (await LocalAnswerer(worker).answer("Что?", [])).sentences == ()


async def test_many_callers_share_the_worker(tagger: LocalTagger) -> None:
    before = sample("ai_requests_total", provider="local", ability="tag", outcome="ok")
    found = await asyncio.gather(*(tagger.tag(f"Цена на нефть выросла до {number} долларов") for number in range(20)))
    assert all("нефть" in " ".join(tagged.tags) for tagged in found)
    assert sample("ai_requests_total", provider="local", ability="tag", outcome="ok") - before == 20
