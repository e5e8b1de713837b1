"""What was seen on pictures: once per file, and found again by what is left after scaling."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.models import Classification, Identity, Ocr, Seen, Usage
from telegram_assistant.domain.pictures import Fingerprint
from telegram_assistant.stores.postgres.enrichment import Pictures

pytestmark = pytest.mark.integration

LOCAL, REMOTE = Identity("local", "m"), Identity("remote", "m", "prompt-1")
ONE, TWO, THREE = ("1" * 64, "2" * 64, "3" * 64)
SEEN = Seen(
    classification=Classification.MEME,
    description="кот",
    is_meme=True,
    labels=("cat",),
    objects=("sofa",),
    scene="home",
    ocr=Ocr(text="WHEN", engine="tesseract", confidence=0.75),
    nsfw_score=0.01,
    dominant_colors=("#aabbcc",),
    provider="local",
    model="m",
    usage=Usage(tokens_in=5, latency_ms=1.5),
)
FINGERPRINT = Fingerprint(phash=0xF0F0_1234_5678_9ABC, width=640, height=480, colour="#808080", plain=False)


@pytest.fixture
async def pictures(database: AsyncEngine) -> Pictures:
    statement = text("INSERT INTO media_objects (sha256, mime, size, storage_key) VALUES (:sha, 'image/png', 1, :sha)")
    async with database.begin() as connection:
        await connection.execute(statement, [{"sha": sha} for sha in (ONE, TWO, THREE)])
    return Pictures(database)


async def test_a_result_comes_back_as_it_was(pictures: Pictures) -> None:
    await pictures.put(ONE, SEEN, identity=LOCAL)
    assert await pictures.by_hash([ONE, TWO]) == {ONE: SEEN}
    assert await pictures.by_hash([ONE], LOCAL) == {ONE: SEEN}
    assert await pictures.by_hash([ONE], REMOTE) == {}
    assert await pictures.by_hash([]) == {}


async def test_a_better_models_result_takes_its_place(pictures: Pictures) -> None:
    await pictures.put(ONE, SEEN, identity=LOCAL)
    await pictures.put(ONE, replace(SEEN, description="рыжий кот"), identity=REMOTE)
    assert (await pictures.by_hash([ONE]))[ONE].description == "рыжий кот"
    assert await pictures.by_hash([ONE], LOCAL) == {}


async def test_text_on_a_picture_may_be_anything(pictures: Pictures) -> None:
    """G6: a screenshot of a program shows the letters of a NUL, and that is none."""
    for words in ("a\x00b", "\\u0000", "\\\x00", '"}\\', "🔥\u2028ё"):
        await pictures.put(ONE, replace(SEEN, ocr=Ocr(text=words, engine="t", confidence=1.0)), identity=LOCAL)
        found = (await pictures.by_hash([ONE]))[ONE].ocr
        assert found is not None
        assert found.text == words.replace("\x00", "")


async def test_near_ones_are_found_nearest_first_and_only_of_the_same_model(pictures: Pictures) -> None:
    far = replace(FINGERPRINT, phash=0x0F0F_EDCB_A987_6543)
    near = replace(FINGERPRINT, phash=FINGERPRINT.phash ^ 0b101)
    await pictures.put(ONE, SEEN, identity=LOCAL, fingerprint=near)
    await pictures.put(TWO, SEEN, identity=LOCAL, fingerprint=FINGERPRINT)
    await pictures.put(THREE, SEEN, identity=LOCAL, fingerprint=far)
    found = await pictures.near(FINGERPRINT, LOCAL)
    assert [(known.sha256, known.fingerprint, known.seen) for known in found] == [
        (TWO, FINGERPRINT, SEEN),
        (ONE, near, SEEN),
    ]
    assert await pictures.near(FINGERPRINT, REMOTE) == []


async def test_what_is_plain_or_shared_speaks_for_nobody_else(pictures: Pictures) -> None:
    plain = replace(FINGERPRINT, plain=True)
    await pictures.put(ONE, SEEN, identity=LOCAL, fingerprint=plain)
    await pictures.put(TWO, SEEN, identity=LOCAL, fingerprint=FINGERPRINT, shared=True)
    assert await pictures.near(FINGERPRINT, LOCAL) == []
    assert await pictures.near(plain, LOCAL) == []
    assert set(await pictures.by_hash([ONE, TWO])) == {ONE, TWO}


async def test_two_processes_that_look_at_once_do_not_share_with_each_other(pictures: Pictures) -> None:
    """The second one finds the first one's result of the very same file: that makes it nobody's copy."""
    await pictures.put(ONE, SEEN, identity=LOCAL, fingerprint=FINGERPRINT)
    await pictures.put(ONE, SEEN, identity=LOCAL, fingerprint=FINGERPRINT, shared=True)
    assert [known.sha256 for known in await pictures.near(FINGERPRINT, LOCAL)] == [ONE]
    await pictures.put(ONE, SEEN, identity=REMOTE, fingerprint=FINGERPRINT, shared=True)
    assert await pictures.near(FINGERPRINT, REMOTE) == []
