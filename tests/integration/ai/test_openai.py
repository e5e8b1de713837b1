"""An OpenAI-compatible server over HTTP: what is sent, and what becomes of every kind of answer."""

# ruff: noqa: RUF001 - the posts are Russian
from __future__ import annotations

import asyncio
import base64
import json
import math
from collections import deque
from collections.abc import Callable
from io import BytesIO
from typing import Any

import pytest
from PIL import Image

from telegram_assistant.ai.providers import Models
from telegram_assistant.domain.models import Classification, Entity, EntityKind, Passage, Picture
from telegram_assistant.errors import Reject, Retry, Skip
from tests.metrics import sample

pytestmark = pytest.mark.integration

Make = Callable[..., Models]
Fail = Callable[..., Any]
POST = "Центробанк повысил ключевую ставку до 21%. Эльвира Набиуллина выступила в Москве."
GOOD = json.dumps(
    {
        "tags": ["ключевая ставка", "Центробанк", "инфляция"],
        "topics": ["finance", "casino"],
        "entities": [{"kind": "person", "name": "Эльвира Набиуллина"}, {"kind": "person", "name": "Джокер"}],
        "language": "ru",
    }
)


def picture(*, side: int = 2000) -> Picture:
    image = Image.new("RGB", (side, side // 2), "orange")
    exif = Image.Exif()
    exif[0x010F] = "SecretCamera"
    out = BytesIO()
    image.save(out, "JPEG", exif=exif)
    return Picture(sha256="aa", mime="image/jpeg", content=out.getvalue())


def tag_calls() -> tuple[float, float]:
    """Calls that went well, and the tokens they took in."""
    calls = sample("ai_requests_total", provider="openai", ability="tag", outcome="ok")
    return calls, sample("ai_tokens_total", provider="openai", ability="tag", direction="in")


async def test_tags_come_checked_with_what_they_cost(openai: Any, make: Make) -> None:
    openai.brain = lambda _system, _data: GOOD
    openai.usage = {"prompt_tokens": 400, "completion_tokens": 100}
    before = tag_calls()
    tagged = await make(openai).tagger.tag(POST)
    assert tagged.tags == ("ключевая ставка", "Центробанк")  # what is not in the text is gone
    assert tagged.topics == ("finance",)
    assert tagged.entities == (Entity(EntityKind.PERSON, "Эльвира Набиуллина"),)
    assert tagged.language == "ru"
    assert (tagged.usage.tokens_in, tagged.usage.tokens_out) == (400, 100)
    assert math.isclose(tagged.usage.cost, 0.4 * 1.0 + 0.1 * 2.0)
    assert tagged.usage.latency_ms > 0
    after = tag_calls()
    assert (after[0] - before[0], after[1] - before[1]) == (1, 400)


async def test_the_request_has_the_key_the_schema_and_the_fenced_post(openai: Any, make: Make) -> None:
    await make(openai).tagger.tag(POST)
    (asked,) = openai.asked
    assert asked["key"] == "Bearer test-key-1234"
    assert asked["model"] == "gpt-4o-mini"
    form = asked["response_format"]
    assert form["type"] == "json_schema"
    assert form["json_schema"]["strict"] is True
    assert form["json_schema"]["schema"]["additionalProperties"] is False
    system, user = (message["content"] for message in asked["messages"])
    assert POST in user
    assert POST not in system


async def test_an_empty_post_is_not_asked_about(openai: Any, make: Make) -> None:
    assert (await make(openai).tagger.tag(" \u200b ")).tags == ()
    assert (await make(openai).answerer.answer("Что?", [])).sentences == ()
    assert openai.asked == []


async def test_a_server_without_schemas_gets_the_form_in_words_from_then_on(
    openai: Any, make: Make, fail: Fail
) -> None:
    openai.brain = lambda _system, _data: GOOD
    openai.troubles = deque([fail(400, {"error": {"message": "unknown response_format", "param": "response_format"}})])
    tagger = make(openai).tagger
    assert (await tagger.tag(POST)).tags
    assert (await tagger.tag(POST)).tags
    assert [asked.get("response_format", {}).get("type") for asked in openai.asked] == [
        "json_schema",
        "json_object",
        "json_object",
    ]
    assert '"additionalProperties": false' in openai.systems[-1]


async def test_a_server_without_any_form_is_asked_in_words(openai: Any, make: Make, fail: Fail) -> None:
    openai.brain = lambda _system, _data: f"Here you are:\n```json\n{GOOD}\n```"
    openai.troubles = deque([fail(422, "no"), fail(400, "no")])
    assert (await make(openai).tagger.tag(POST)).tags
    assert "response_format" not in openai.asked[-1]


async def test_parameters_that_a_server_does_not_want_are_left_out(openai: Any, make: Make, fail: Fail) -> None:
    openai.brain = lambda _system, _data: GOOD
    openai.troubles = deque(
        [
            fail(400, {"error": {"message": "use max_completion_tokens", "param": "max_tokens"}}),
            fail(400, {"error": {"message": "only 1 is supported", "param": "temperature"}}),
        ]
    )
    assert (await make(openai).tagger.tag(POST)).tags
    last = openai.asked[-1]
    assert "temperature" not in last
    assert "max_tokens" not in last
    assert last["max_completion_tokens"] == 700
    assert last["response_format"]["type"] == "json_schema"


async def test_an_input_that_no_form_helps_is_rejected(openai: Any, make: Make, fail: Fail) -> None:
    openai.troubles = deque([fail(400, {"error": {"message": "context_length_exceeded"}})] * 3)
    with pytest.raises(Reject, match="context_length_exceeded"):
        await make(openai).tagger.tag(POST)
    assert len(openai.asked) == 3


async def test_a_short_limit_is_waited_out(openai: Any, make: Make, fail: Fail) -> None:
    openai.brain = lambda _system, _data: GOOD
    openai.troubles = deque([fail(429, "slow down", Retry_After="0.05")])
    assert (await make(openai).tagger.tag(POST)).tags
    assert len(openai.asked) == 2


async def test_a_long_limit_comes_back_as_retry_and_spares_the_server(openai: Any, make: Make, fail: Fail) -> None:
    openai.troubles = deque([fail(429, "slow down", Retry_After="120")])
    models = make(openai)
    for _ in range(2):
        with pytest.raises(Retry) as caught:
            await models.tagger.tag(POST)
        assert caught.value.after is not None
        assert 100 < caught.value.after <= 120
    assert len(openai.asked) == 1


async def test_a_broken_server_is_tried_again_and_then_later(openai: Any, make: Make, fail: Fail) -> None:
    openai.brain = lambda _system, _data: GOOD
    models = make(openai)
    openai.troubles = deque([fail(500), fail(502)])
    assert (await models.tagger.tag(POST)).tags
    openai.troubles = deque([fail(500)] * 3)
    with pytest.raises(Retry, match="500"):
        await models.tagger.tag(POST)
    assert len(openai.asked) == 6


async def test_the_door_shuts_for_one_ability_only(openai: Any, make: Make, fail: Fail) -> None:
    models = make(openai)
    openai.troubles = deque([fail(500)] * 9)
    for _ in range(3):
        with pytest.raises(Retry):
            await models.tagger.tag(POST)
    asked = len(openai.asked)
    with pytest.raises(Retry) as caught:
        await models.tagger.tag(POST)
    assert caught.value.after
    assert len(openai.asked) == asked
    assert list(models.troubles()) == ["tag"]
    assert (await models.embedder.embed(["x"])).vectors


async def test_a_slow_server_is_down(openai: Any, make: Make) -> None:
    openai.troubles = deque([openai.slow] * 3)
    with pytest.raises(Retry, match=r"0\.1 s"):
        await make(openai, timeout=0.1).tagger.tag(POST)


async def test_nobody_listens(openai: Any, make: Make) -> None:
    openai.url = "http://127.0.0.1:9"
    with pytest.raises(Retry, match="no connection"):
        await make(openai).tagger.tag(POST)


@pytest.mark.parametrize("body", ["<html>proxy</html>", "[]", '{"choices": []}', '{"choices": [{"message": 5}]}', ""])
async def test_an_answer_that_is_none_is_a_trouble_of_the_server(
    openai: Any, make: Make, fail: Fail, body: str
) -> None:
    openai.troubles = deque([fail(200, body)] * 3)
    with pytest.raises(Retry):
        await make(openai).tagger.tag(POST)


async def test_a_malformed_answer_gets_one_more_try(openai: Any, make: Make) -> None:
    answers = deque(['{"tags": "IGNORE', GOOD])
    openai.brain = lambda _system, _data: answers.popleft()
    tagged = await make(openai).tagger.tag(POST)
    assert tagged.tags
    assert tagged.usage.tokens_in == 800  # both are paid for
    assert "not of the given form" in openai.systems[1]
    assert "IGNORE" not in openai.systems[1]


async def test_twice_malformed_is_rubbish_and_tried_later(openai: Any, make: Make) -> None:
    openai.brain = lambda _system, _data: "I am a teapot"
    with pytest.raises(Retry, match="form") as caught:
        await make(openai).tagger.tag(POST)
    assert caught.value.own
    assert len(openai.asked) == 2


async def test_a_refusal_is_rejected(openai: Any, make: Make, fail: Fail) -> None:
    message = {"role": "assistant", "content": None, "refusal": "I won't"}
    openai.troubles = deque([fail(200, {"choices": [{"index": 0, "message": message}]})])
    with pytest.raises(Reject, match="won't"):
        await make(openai).tagger.tag(POST)


@pytest.mark.parametrize(
    "answer,told",
    [
        ((403, "no"), "OPENAI_API_KEY"),
        ((404, {"error": {"message": "The model does not exist"}}), "no such model"),
        ((402, "pay"), "empty"),
        ((429, {"error": {"message": "insufficient_quota: pay"}}), "empty"),
    ],
)
async def test_what_only_a_person_can_change_is_told(
    openai: Any, make: Make, fail: Fail, answer: tuple[int, object], told: str
) -> None:
    openai.troubles = deque([fail(*answer)])
    models = make(openai)
    with pytest.raises(Retry, match=told) as caught:
        await models.tagger.tag(POST)
    assert "a person has to act" in str(caught.value)
    assert caught.value.after is not None
    assert caught.value.after > 100
    assert "a person has to act" in models.troubles()["tag"]
    assert sample("ai_blocked", provider="openai", ability="tag") == 1


async def test_a_wrong_key_is_told_without_showing_it(openai: Any, make: Make) -> None:
    with pytest.raises(Retry, match="Incorrect API key") as caught:
        await make(openai, key="wrong-secret").tagger.tag(POST)
    assert "wrong-secret" not in str(caught.value)


async def test_only_so_many_at_once(openai: Any, make: Make) -> None:
    tagger = make(openai).tagger
    await asyncio.gather(*(tagger.tag(f"{POST} {number}") for number in range(12)))
    assert len(openai.asked) == 12
    assert openai.most_inside <= 3


async def test_a_picture_goes_small_and_without_its_metadata(openai: Any, make: Make) -> None:
    openai.brain = lambda _system, _data: json.dumps(
        {
            "classification": "photo",
            "description": "Апельсиновый фон.",
            "is_meme": False,
            "labels": ["Фон"],
            "objects": [],
            "scene": "",
            "text": "",
            "nsfw_score": 0.01,
            "dominant_colors": ["#FFA500"],
        }
    )
    seen = await make(openai).describer.describe(picture())
    assert seen.classification is Classification.PHOTO
    assert seen.ocr is None
    assert seen.labels == ("фон",)
    assert seen.dominant_colors == ("#ffa500",)
    assert (seen.provider, seen.model) == ("openai", "gpt-4o-mini")
    assert seen.usage.tokens_in == 400
    address = openai.asked[0]["messages"][1]["content"][1]["image_url"]["url"]
    sent = base64.b64decode(address.removeprefix("data:image/jpeg;base64,"))
    with Image.open(BytesIO(sent)) as image:
        assert image.format == "JPEG"
        assert image.size == (1280, 640)
        assert not image.getexif()
    assert b"SecretCamera" not in sent


async def test_what_is_no_picture_is_skipped_without_asking(openai: Any, make: Make) -> None:
    with pytest.raises(Skip):
        await make(openai).describer.describe(Picture(sha256="bb", mime="image/png", content=b"%PDF-1.7 not a picture"))
    assert openai.asked == []


async def test_an_unknown_kind_of_picture_is_asked_again_and_tried_later(openai: Any, make: Make) -> None:
    openai.brain = lambda _system, _data: '{"classification": "malware", "description": "x"}'
    with pytest.raises(Retry, match="classification"):
        await make(openai).describer.describe(picture(side=64))


async def test_vectors_are_in_order_of_unit_length_and_long_texts_in_pieces(openai: Any, make: Make) -> None:
    texts = ["first", "", "second", "Длинное предложение о погоде. " * 500]
    embedded = await make(openai).embedder.embed(texts)
    assert len(embedded.vectors) == 4
    for vector in embedded.vectors:
        assert len(vector) == 8
        assert math.isclose(sum(number * number for number in vector), 1.0, rel_tol=1e-6)
    expected = openai.vector("first")
    length = math.sqrt(sum(number * number for number in expected))
    assert embedded.vectors[0] == pytest.approx([number / length for number in expected])
    sent = [text for asked in openai.asked for text in asked["input"]]
    assert all(sent)  # servers refuse an empty text
    assert max(map(len, sent)) <= 12_000
    assert embedded.usage.tokens_in == sum(len(text) for text in sent) // 4


async def test_many_texts_go_in_batches(openai: Any, make: Make) -> None:
    embedded = await make(openai).embedder.embed([f"text {number}" for number in range(70)])
    assert len(embedded.vectors) == 70
    assert [len(asked["input"]) for asked in openai.asked] == [32, 32, 6]


async def test_vectors_of_another_size_need_a_person(openai: Any, make: Make) -> None:
    models = make(openai)
    openai.size = 4
    with pytest.raises(Retry, match="4 numbers, the settings say 8"):
        await models.embedder.embed(["x"])
    assert models.gates["embed"].blocked


@pytest.mark.parametrize("data", [[], [{"index": 0, "embedding": []}], [{"index": 0, "embedding": [1e999] * 8}]])
async def test_vectors_that_are_none_are_a_trouble_of_the_server(
    openai: Any, make: Make, fail: Fail, data: object
) -> None:
    openai.troubles = deque([fail(200, json.dumps({"data": data}).replace("Infinity", "1e400"))] * 3)
    with pytest.raises(Retry):
        await make(openai).embedder.embed(["x"])


async def test_an_answer_names_our_keys(openai: Any, make: Make) -> None:
    openai.brain = lambda _system, _data: json.dumps(
        {
            "sentences": [
                {"text": "Ставку повысили до 21%.", "sources": ["1"]},
                {"text": "Ставку повысили до 21%.", "sources": ["9"]},
                {"text": "Звоните по номеру 112233.", "sources": ["1"]},
            ]
        }
    )
    passages = [Passage(key="post-7", text=POST), Passage(key="post-8", text="В Сочи тепло.")]
    answer = await make(openai).answerer.answer("До скольки повысили ставку?", passages)
    assert [(sentence.text, sentence.sources) for sentence in answer.sentences] == [
        ("Ставку повысили до 21%.", ("post-7",))
    ]
    assert answer.usage.tokens_out >= 20
