"""What any vector index does for us, whichever engine is behind it."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from telegram_assistant.errors import Fatal
from telegram_assistant.index.vectors import Found, Model, Point, Vectors, Where

pytestmark = pytest.mark.integration

SIZE = 8
SMALL = Model("small", SIZE)
LARGE = Model("large", 2 * SIZE)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOSTILE = ["O'Reilly", '"; DROP', "a\x00b", "😀🇷🇺", "}) RETURN 1 //", "я" * 4096, " ", "\\u0000", "%_*"]


def direction(angle: float, size: int = SIZE) -> list[float]:
    """A vector in a plane, so that the cosine of two is that of the angle between them."""
    return [math.cos(angle), math.sin(angle)] + [0.0] * (size - 2)


def point(angle: float = 0.0, *, size: int = SIZE, **fields: Any) -> Point:
    known: dict[str, Any] = {"post_id": uuid4(), "text_hash": "h", "channel_id": 1, "posted_at": NOON}
    return Point(vector=direction(angle, size), **(known | fields))


def fields(where: Where) -> str:
    """The names of what it asks for."""
    return "+".join(name for name in Where.__slots__ if getattr(where, name) not in ((), None)) or "all"


def ids(found: Sequence[Found]) -> list[UUID]:
    return [one.post_id for one in found]


async def everything(vectors: Vectors, tenant: UUID, model: Model) -> list[UUID]:
    return [post_id async for piece in vectors.ids(tenant, model) for post_id in piece]


async def test_a_tenant_without_vectors(vectors: Vectors, tenant: UUID) -> None:
    assert await vectors.current(tenant) is None
    assert await vectors.search(tenant, direction(0), limit=5) == []
    assert await vectors.vector(tenant, uuid4()) is None
    await vectors.remove(tenant, [uuid4()])
    await vectors.drop(tenant)
    assert await vectors.current(tenant) is None


async def test_a_generation_has_to_be_opened_first(vectors: Vectors, tenant: UUID) -> None:
    await vectors.open(tenant, SMALL)
    for attempt in (
        vectors.put(tenant, LARGE, [point(size=16)]),
        vectors.hashes(tenant, LARGE, [uuid4()]),
        vectors.switch(tenant, LARGE),
        everything(vectors, tenant, LARGE),
    ):
        with pytest.raises(Fatal, match="large"):
            await attempt


async def test_the_first_generation_answers_at_once(vectors: Vectors, tenant: UUID) -> None:
    await vectors.open(tenant, SMALL)
    await vectors.open(tenant, SMALL)
    assert await vectors.current(tenant) == SMALL


async def test_nearest_first_with_the_cosine(vectors: Vectors, tenant: UUID) -> None:
    await vectors.open(tenant, SMALL)
    near, middle, far = point(0.1), point(1.0), point(3.0)
    await vectors.put(tenant, SMALL, [far, near, middle])
    found = await vectors.search(tenant, direction(0), limit=3)
    assert ids(found) == [near.post_id, middle.post_id, far.post_id]
    assert [one.score for one in found] == pytest.approx([math.cos(0.1), math.cos(1.0), math.cos(3.0)], abs=1e-5)
    assert ids(await vectors.search(tenant, direction(0), limit=1)) == [near.post_id]


async def test_a_vector_can_be_had_back(vectors: Vectors, tenant: UUID) -> None:
    await vectors.open(tenant, SMALL)
    one = point(0.7)
    await vectors.put(tenant, SMALL, [one])
    assert await vectors.vector(tenant, one.post_id) == pytest.approx(list(one.vector), abs=1e-6)
    assert await vectors.vector(tenant, uuid4()) is None


async def test_putting_again_changes_nothing(vectors: Vectors, tenant: UUID) -> None:
    await vectors.open(tenant, SMALL)
    one, other = point(0.1), point(0.2)
    for _ in range(3):
        await vectors.put(tenant, SMALL, [one, other])
    assert sorted(await everything(vectors, tenant, SMALL)) == sorted([one.post_id, other.post_id])
    assert len(await vectors.search(tenant, direction(0), limit=10)) == 2


async def test_putting_replaces_vector_and_payload(vectors: Vectors, tenant: UUID) -> None:
    await vectors.open(tenant, SMALL)
    before = point(0.0, text_hash="old", tags=("old",), has=("photo",))
    await vectors.put(tenant, SMALL, [before])
    after = replace(before, vector=direction(2.0), text_hash="new", tags=("new",), has=())
    await vectors.put(tenant, SMALL, [after])
    assert await vectors.vector(tenant, before.post_id) == pytest.approx(direction(2.0), abs=1e-6)
    assert await vectors.hashes(tenant, SMALL, [before.post_id]) == {before.post_id: "new"}
    for gone in (Where(tags=["old"]), Where(has=["photo"])):
        assert await vectors.search(tenant, direction(0), limit=5, where=gone) == []
    assert ids(await vectors.search(tenant, direction(0), limit=5, where=Where(tags=["new"]))) == [before.post_id]


async def test_an_update_leaves_the_vector(vectors: Vectors, tenant: UUID) -> None:
    await vectors.open(tenant, SMALL)
    one, other = point(0.5, tags=("a",)), point(0.6, tags=("a",))
    await vectors.put(tenant, SMALL, [one, other])
    await vectors.update(tenant, SMALL, [replace(one, vector=(), tags=("b",), language="ru")])
    assert await vectors.vector(tenant, one.post_id) == pytest.approx(direction(0.5), abs=1e-6)
    assert ids(await vectors.search(tenant, direction(0), limit=5, where=Where(tags=["b"]))) == [one.post_id]
    assert ids(await vectors.search(tenant, direction(0), limit=5, where=Where(tags=["a"]))) == [other.post_id]


async def test_an_update_of_what_is_not_there_is_nothing(vectors: Vectors, tenant: UUID) -> None:
    await vectors.open(tenant, SMALL)
    known = point()
    await vectors.put(tenant, SMALL, [known])
    await vectors.update(tenant, SMALL, [point(text_hash="x"), replace(known, text_hash="y")])
    assert await everything(vectors, tenant, SMALL) == [known.post_id]
    assert await vectors.hashes(tenant, SMALL, [known.post_id]) == {known.post_id: "y"}


async def test_hashes_of_those_that_are_there(vectors: Vectors, tenant: UUID) -> None:
    await vectors.open(tenant, SMALL)
    one, other = point(text_hash="1"), point(text_hash="2")
    await vectors.put(tenant, SMALL, [one, other])
    asked = [one.post_id, uuid4(), other.post_id]
    assert await vectors.hashes(tenant, SMALL, asked) == {one.post_id: "1", other.post_id: "2"}


async def test_nothing_to_do(vectors: Vectors, tenant: UUID) -> None:
    await vectors.open(tenant, SMALL)
    await vectors.put(tenant, SMALL, [])
    await vectors.update(tenant, SMALL, [])
    await vectors.remove(tenant, [])
    assert await vectors.hashes(tenant, SMALL, []) == {}
    assert await everything(vectors, tenant, SMALL) == []
    assert await vectors.search(tenant, direction(0), limit=3) == []


async def test_removing_takes_a_post_from_every_generation(vectors: Vectors, tenant: UUID) -> None:
    await vectors.open(tenant, SMALL)
    await vectors.open(tenant, LARGE)
    gone, stays = point(0.1), point(0.2)
    await vectors.put(tenant, SMALL, [gone, stays])
    await vectors.put(tenant, LARGE, [replace(one, vector=direction(0, 16)) for one in (gone, stays)])
    for _ in range(2):
        await vectors.remove(tenant, [gone.post_id, uuid4()])
    assert await everything(vectors, tenant, SMALL) == [stays.post_id]
    assert await everything(vectors, tenant, LARGE) == [stays.post_id]
    assert ids(await vectors.search(tenant, direction(0), limit=5)) == [stays.post_id]


async def test_another_model_is_filled_beside_and_takes_over(vectors: Vectors, tenant: UUID) -> None:
    await vectors.open(tenant, SMALL)
    old, new = point(0.1), point(0.2, size=16)
    await vectors.put(tenant, SMALL, [old])
    await vectors.open(tenant, LARGE)
    await vectors.put(tenant, LARGE, [new])
    assert await vectors.current(tenant) == SMALL
    assert ids(await vectors.search(tenant, direction(0), limit=5)) == [old.post_id]
    for _ in range(2):
        await vectors.switch(tenant, LARGE)
    assert await vectors.current(tenant) == LARGE
    assert ids(await vectors.search(tenant, direction(0, 16), limit=5)) == [new.post_id]
    assert await vectors.vector(tenant, old.post_id) is None
    with pytest.raises(Fatal, match="small"):
        await vectors.put(tenant, SMALL, [old])
    await vectors.open(tenant, SMALL)  # an old generation that comes back starts empty
    assert await everything(vectors, tenant, SMALL) == []


async def test_the_same_model_with_another_size_is_another(vectors: Vectors, tenant: UUID) -> None:
    wide = Model(SMALL.name, 16)
    await vectors.open(tenant, SMALL)
    await vectors.open(tenant, wide)
    await vectors.put(tenant, wide, [point(size=16)])
    assert await everything(vectors, tenant, SMALL) == []
    assert await vectors.current(tenant) == SMALL


async def test_a_vector_of_another_size_is_for_a_person(vectors: Vectors, tenant: UUID) -> None:
    await vectors.open(tenant, SMALL)
    with pytest.raises(Fatal, match="8 numbers, but got one with 16"):
        await vectors.put(tenant, SMALL, [point(), point(size=16)])
    with pytest.raises(Fatal, match="8 numbers, but got one with 16"):
        await vectors.search(tenant, direction(0, 16), limit=1)
    assert await everything(vectors, tenant, SMALL) == []


POSTS = {
    "plain": point(0.1, channel_id=-1001234567890, language="ru", posted_at=NOON),
    "photo": point(0.2, channel_id=7, language="ru", tags=("cat", "dog"), has=("photo", "link"), topics=("pets",)),
    "album": point(0.3, channel_id=7, language="en", tags=("cat",), has=("photo", "album"), album_id=uuid4()),
    "old": point(0.4, channel_id=8, posted_at=NOON - timedelta(days=9), topics=("news", "pets"), edited=True),
    "forward": point(0.5, channel_id=9, posted_at=NOON + timedelta(seconds=1), forwarded=True, topics=("war",)),
}


@pytest.mark.parametrize(
    "where, expected",
    [
        (Where(), "plain photo album old forward"),
        (Where(channels=[7]), "photo album"),
        (Where(channels=[-1001234567890, 9]), "plain forward"),
        (Where(channels=[404]), ""),
        (Where(not_channels=[7, 9]), "plain old"),
        (Where(tags=["cat"]), "photo album"),
        (Where(tags=["cat", "dog"]), "photo"),
        (Where(topics=["pets"]), "photo old"),
        (Where(topics=["pets", "war"]), "photo old forward"),
        (Where(languages=["ru"]), "plain photo"),
        (Where(languages=["ru", "en"]), "plain photo album"),
        (Where(has=["photo"]), "photo album"),
        (Where(has=["photo", "link"]), "photo"),
        (Where(since=NOON), "plain photo album forward"),
        (Where(since=NOON + timedelta(microseconds=1)), "forward"),
        (Where(before=NOON), "old"),
        (Where(since=NOON - timedelta(days=10), before=NOON + timedelta(seconds=1)), "plain photo album old"),
        (Where(forwarded=True), "forward"),
        (Where(forwarded=False), "plain photo album old"),
        (Where(edited=True), "old"),
        (Where(edited=False), "plain photo album forward"),
        (Where(not_posts=[POSTS["plain"].post_id, POSTS["old"].post_id]), "photo album forward"),
        (Where(channels=[7, 8], tags=["cat"], languages=["en"], has=["album"], edited=False, since=NOON), "album"),
        (Where(channels=[7], not_channels=[7]), ""),
        (Where(topics=["pets"], not_posts=[POSTS["old"].post_id], before=NOON + timedelta(days=1)), "photo"),
    ],
    ids=lambda value: value or "nothing" if isinstance(value, str) else fields(value),
)
async def test_narrowing(vectors: Vectors, tenant: UUID, where: Where, expected: str) -> None:
    await vectors.open(tenant, SMALL)
    await vectors.put(tenant, SMALL, list(POSTS.values()))
    names = {one.post_id: name for name, one in POSTS.items()}
    found = await vectors.search(tenant, direction(0), limit=10, where=where)
    assert [names[one.post_id] for one in found] == expected.split()


async def test_words_are_only_words(vectors: Vectors, tenant: UUID) -> None:
    await vectors.open(tenant, SMALL)
    points = [point(index / 10, tags=(word,), language=word[:10]) for index, word in enumerate(HOSTILE)]
    await vectors.put(tenant, SMALL, points)
    for word, one in zip(HOSTILE, points, strict=True):
        found = await vectors.search(tenant, direction(0), limit=99, where=Where(tags=[word]))
        assert ids(found) == [one.post_id], word


async def test_tenants_do_not_see_each_other(vectors: Vectors, tenant: UUID) -> None:
    stranger, shared = uuid4(), uuid4()
    for owner, angle in ((tenant, 0.1), (stranger, 0.5)):
        await vectors.open(owner, SMALL)
        await vectors.put(owner, SMALL, [point(angle, post_id=shared), point(angle)])
    assert await vectors.vector(tenant, shared) == pytest.approx(direction(0.1), abs=1e-6)
    await vectors.remove(stranger, [shared])
    await vectors.switch(stranger, SMALL)
    assert len(await vectors.search(tenant, direction(0), limit=9)) == 2
    await vectors.drop(stranger)
    assert await vectors.current(stranger) is None
    assert await vectors.search(stranger, direction(0), limit=9) == []
    assert len(await vectors.search(tenant, direction(0), limit=9)) == 2


async def test_a_tenant_that_left_may_come_back_empty(vectors: Vectors, tenant: UUID) -> None:
    await vectors.open(tenant, SMALL)
    await vectors.put(tenant, SMALL, [point()])
    await vectors.drop(tenant)
    await vectors.drop(tenant)
    await vectors.open(tenant, LARGE)
    assert await vectors.current(tenant) == LARGE
    assert await everything(vectors, tenant, LARGE) == []


async def test_two_thousand_points(vectors: Vectors, tenant: UUID) -> None:
    rng = random.Random(7)
    points = [
        Point(
            post_id=UUID(int=rng.getrandbits(128), version=4),
            vector=[rng.gauss(0, 1) for _ in range(SIZE)],
            text_hash=str(number),
            channel_id=number % 20,
            posted_at=NOON + timedelta(minutes=number),
        )
        for number in range(2000)
    ]
    await vectors.open(tenant, SMALL)
    await vectors.put(tenant, SMALL, points)
    stored = await everything(vectors, tenant, SMALL)
    assert len(stored) == 2000
    assert set(stored) == {one.post_id for one in points}
    hashes = await vectors.hashes(tenant, SMALL, stored)
    assert hashes == {one.post_id: one.text_hash for one in points}
    query = [rng.gauss(0, 1) for _ in range(SIZE)]
    found = await vectors.search(tenant, query, limit=50, where=Where(channels=[3]))
    best = sorted((one for one in points if one.channel_id == 3), key=lambda one: -cosine(query, one.vector))
    assert ids(found) == [one.post_id for one in best[:50]]


async def test_puts_and_searches_at_the_same_time(vectors: Vectors, tenant: UUID) -> None:
    await vectors.open(tenant, SMALL)
    batches = [[point(0.001 * number) for number in range(30)] for _ in range(10)]
    await asyncio.gather(
        *(vectors.put(tenant, SMALL, batch) for batch in batches),
        *(vectors.search(tenant, direction(0), limit=5) for _ in range(20)),
    )
    assert len(await everything(vectors, tenant, SMALL)) == 300


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True)) / (math.hypot(*one) * math.hypot(*other))


async def test_a_mark_tells_one_index_from_another(vectors: Vectors, tenant: UUID) -> None:
    """N14."""
    assert await vectors.mark(tenant) is None
    await vectors.open(tenant, SMALL)
    assert await vectors.mark(tenant) == ""
    await vectors.set_mark(tenant, "first")
    assert await vectors.mark(tenant) == "first"
    assert await vectors.mark(uuid4()) is None
    await vectors.open(tenant, LARGE)
    await vectors.set_mark(tenant, "second")
    await vectors.switch(tenant, LARGE)
    assert await vectors.mark(tenant) == "second", "a switch of the model does not make another index of it"
    assert await vectors.current(tenant) == LARGE
    await vectors.drop(tenant)
    assert await vectors.mark(tenant) is None


async def test_a_tenant_without_a_collection_does_not_disturb_the_others(vectors: Vectors, tenant: UUID) -> None:
    """A worker asks for the marks of all tenants, again and again."""
    await vectors.open(tenant, SMALL)
    assert await vectors.mark(uuid4()) is None
    assert await vectors.current(tenant) == SMALL
