"""GigaChat over HTTP, by its official package: tokens, uploads, and every kind of trouble."""

# ruff: noqa: RUF001 - the posts are Russian
from __future__ import annotations

import asyncio
import json
import math
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from io import BytesIO
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from PIL import Image

from telegram_assistant.ai.providers import Models
from telegram_assistant.domain.models import Classification, Passage, Picture
from telegram_assistant.errors import Reject, Retry

pytestmark = pytest.mark.integration

Make = Callable[..., Models]
Fail = Callable[..., Any]
POST = "Центробанк повысил ключевую ставку до 21%. Эльвира Набиуллина выступила в Москве."
GOOD = json.dumps({"tags": ["ключевая ставка", "казино"], "topics": ["finance"], "entities": [], "language": "ru"})
SEEN = json.dumps(
    {"classification": "meme", "description": "Кот.", "is_meme": True, "text": "Привет", "nsfw_score": 0.2}
)


def picture() -> Picture:
    out = BytesIO()
    Image.new("RGB", (64, 64), "teal").save(out, "PNG")
    return Picture(sha256="aa", mime="image/png", content=out.getvalue())


def paths(fake: Any) -> list[str]:
    return [asked["path"].removeprefix("/api/v1") for asked in fake.asked]


async def test_tags_come_with_a_token_and_a_schema(gigachat: Any, make: Make) -> None:
    gigachat.brain = lambda _system, _data: GOOD
    tagged = await make(gigachat).tagger.tag(POST)
    assert tagged.tags == ("ключевая ставка",)
    assert (tagged.usage.tokens_in, tagged.usage.tokens_out) == (390, 60)
    assert math.isclose(tagged.usage.cost, 0.39 + 0.12)
    assert paths(gigachat) == ["/oauth", "/chat/completions"]
    assert gigachat.asked[0]["scope"] == "GIGACHAT_API_PERS"
    asked = gigachat.asked[1]
    assert asked["key"] == "Bearer token-1"
    assert asked["response_format"]["type"] == "json_schema"
    assert POST in asked["messages"][1]["content"]


async def test_one_token_serves_all_calls(gigachat: Any, make: Make) -> None:
    models = make(gigachat)
    await asyncio.gather(*(models.tagger.tag(f"{POST} {number}") for number in range(5)), models.embedder.embed(["x"]))
    assert gigachat.tokens_given == 1


async def test_a_token_that_ends_is_renewed_in_the_middle_of_work(gigachat: Any, make: Make) -> None:
    gigachat.brain = lambda _system, _data: GOOD
    tagger = make(gigachat).tagger
    await tagger.tag(POST)
    gigachat.token = "revoked"  # the server forgets it before its time: 401
    assert (await tagger.tag(POST)).tags
    assert gigachat.tokens_given == 2
    assert gigachat.asked[-1]["key"] == "Bearer token-2"


async def test_a_token_near_its_end_is_not_used(gigachat: Any, make: Make) -> None:
    gigachat.lifetime = 30.0  # less than the package's reserve of a minute
    tagger = make(gigachat).tagger
    await tagger.tag(POST)
    await tagger.tag(POST)
    assert gigachat.tokens_given == 2


async def test_a_wrong_key_needs_a_person(gigachat: Any, make: Make) -> None:
    models = make(gigachat, credentials="d3Jvbmc6a2V5")
    for _ in range(2):
        with pytest.raises(Retry, match="GIGACHAT_CREDENTIALS") as caught:
            await models.tagger.tag(POST)
        assert "a person has to act" in str(caught.value)
        assert "d3Jvbmc6a2V5" not in str(caught.value)
    assert models.gates["tag"].blocked
    assert gigachat.asked == []


@pytest.mark.parametrize("status,told", [(402, "no tokens left"), (403, "refuses the key"), (404, "no such model")])
async def test_what_only_a_person_can_change_is_told(
    gigachat: Any, make: Make, fail: Fail, status: int, told: str
) -> None:
    gigachat.troubles = deque([fail(status, {"status": status, "message": "no"})])
    with pytest.raises(Retry, match=told) as caught:
        await make(gigachat).tagger.tag(POST)
    assert caught.value.after is not None
    assert caught.value.after > 100


async def test_limits_and_broken_answers(gigachat: Any, make: Make, fail: Fail) -> None:
    gigachat.brain = lambda _system, _data: GOOD
    models = make(gigachat)
    gigachat.troubles = deque([fail(429, "", Retry_After="0.05"), fail(500)])
    assert (await models.tagger.tag(POST)).tags
    gigachat.troubles = deque([fail(429, "", Retry_After="90")])
    with pytest.raises(Retry) as caught:
        await models.tagger.tag(POST)
    assert caught.value.after is not None
    assert 80 < caught.value.after <= 90


@pytest.mark.parametrize("body", ["<html>", "[]", "{}", '{"choices": []}'])
async def test_an_answer_that_is_none_is_a_trouble_of_the_server(
    gigachat: Any, make: Make, fail: Fail, body: str
) -> None:
    gigachat.troubles = deque([fail(200, body)] * 3)
    with pytest.raises(Retry):
        await make(gigachat).tagger.tag(POST)


async def test_a_slow_server_is_down(gigachat: Any, make: Make) -> None:
    gigachat.troubles = deque([gigachat.slow] * 3)
    with pytest.raises(Retry, match=r"0\.5 s"):
        await make(gigachat, timeout=0.5).tagger.tag(POST)


async def test_malformed_once_is_asked_again_and_twice_is_tried_later(gigachat: Any, make: Make) -> None:
    answers = deque(["не JSON", GOOD, "снова", "не JSON"])
    gigachat.brain = lambda _system, _data: answers.popleft()
    tagger = make(gigachat).tagger
    assert (await tagger.tag(POST)).tags
    with pytest.raises(Retry, match="form"):
        await tagger.tag(POST)


async def test_what_it_will_not_speak_of_is_rejected(gigachat: Any, make: Make) -> None:
    async def blacklisted(_: Any) -> Any:
        return gigachat.completion("Не люблю менять тему разговора", "blacklist")

    gigachat.troubles = deque([blacklisted])
    with pytest.raises(Reject, match="will not speak"):
        await make(gigachat).tagger.tag(POST)


async def test_a_model_without_schemas_is_told_the_form_in_words(gigachat: Any, make: Make, fail: Fail) -> None:
    gigachat.brain = lambda _system, _data: f"```json\n{GOOD}\n```"
    gigachat.troubles = deque([fail(422, {"message": "response_format is not supported"})])
    tagger = make(gigachat).tagger
    for _ in range(2):
        assert (await tagger.tag(POST)).tags
    chats = [asked for asked in gigachat.asked if "messages" in asked]
    assert ["response_format" in asked for asked in chats] == [True, False, False]
    assert "additionalProperties" in chats[-1]["messages"][0]["content"]


async def test_an_input_it_does_not_take_is_rejected(gigachat: Any, make: Make, fail: Fail) -> None:
    gigachat.troubles = deque([fail(413, "too large")] * 2)
    with pytest.raises(Reject, match="413"):
        await make(gigachat).tagger.tag(POST)


async def test_a_picture_is_uploaded_asked_about_and_removed(gigachat: Any, make: Make) -> None:
    gigachat.brain = lambda _system, _data: SEEN
    seen = await make(gigachat).describer.describe(picture())
    assert seen.classification is Classification.MEME
    assert seen.ocr is not None
    assert (seen.ocr.text, seen.ocr.engine) == ("Привет", "gigachat")
    assert paths(gigachat) == ["/oauth", "/files", "/chat/completions", "/files/file-0/delete"]
    assert gigachat.asked[2]["messages"][1]["attachments"] == ["file-0"]
    assert gigachat.asked[2]["model"] == "GigaChat-2-Max"
    kind, content = gigachat.uploads[0]
    assert kind == "image/jpeg"
    assert content.startswith(b"\xff\xd8")
    assert gigachat.files == {}


async def test_a_picture_is_removed_when_the_question_fails(gigachat: Any, make: Make, fail: Fail) -> None:
    models = make(gigachat)
    await models.tagger.tag(POST)

    async def upload_passes(_: Any) -> Any:
        return None

    # The upload goes through, then the question fails in both forms; the removal is the fourth request.
    gigachat.troubles = deque([upload_passes, fail(400, "bad"), fail(400, "bad")])
    with pytest.raises(Reject):
        await models.describer.describe(picture())
    assert gigachat.files == {}


async def test_a_failed_upload_is_later_never_empty(gigachat: Any, make: Make, fail: Fail) -> None:
    gigachat.troubles = deque([fail(500)] * 3)
    with pytest.raises(Retry):
        await make(gigachat).describer.describe(picture())


async def test_vectors(gigachat: Any, make: Make) -> None:
    long = "Предложение о ставке и рынке. " * 100
    embedded = await make(gigachat).embedder.embed(["первый", long])
    assert [len(vector) for vector in embedded.vectors] == [8, 8]
    asked = gigachat.asked[-1]
    assert asked["model"] == "Embeddings"
    assert len(asked["input"]) == 4  # its model takes 512 tokens, so the long one goes in pieces
    assert max(map(len, asked["input"])) <= 1_200
    assert embedded.usage.tokens_in == sum(len(text) // 4 for text in asked["input"])


async def test_an_answer(gigachat: Any, make: Make) -> None:
    gigachat.brain = lambda _system, _data: '{"sentences": [{"text": "Ставку повысили до 21%.", "sources": [1]}]}'
    answer = await make(gigachat).answerer.answer("До скольки?", [Passage(key="k", text=POST)])
    assert [sentence.sources for sentence in answer.sentences] == [("k",)]


def _certificate(folder: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "loopback")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = (
        builder.serial_number(1).not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    )
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    signed = builder.add_extension(names, critical=False).sign(key, hashes.SHA256())
    certificate, private = folder / "cert.pem", folder / "key.pem"
    certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    private.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    return certificate, private


async def test_tls_is_verified_and_an_authority_can_be_added(
    tmp_path: Path,
    make: Make,
    secure: Callable[..., Any],
    gigachat_class: type[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GIGACHAT_VERIFY_SSL_CERTS", "false")  # the package's own switch must not work here
    certificate, private = _certificate(tmp_path)
    fake = gigachat_class()
    async with secure(fake, {"ssl_certfile": str(certificate), "ssl_keyfile": str(private)}):
        with pytest.raises(Retry, match="no connection"):
            await make(fake).tagger.tag(POST)
        assert fake.asked == []
        await make(fake, ca_file=certificate).tagger.tag(POST)
        assert fake.tokens_given == 1
