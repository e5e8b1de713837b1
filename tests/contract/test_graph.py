"""What any graph does for us, whichever engine is behind it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID, uuid4

import pytest

from telegram_assistant.domain.models import Entity, EntityKind
from telegram_assistant.index.cypher_graph import Graph
from telegram_assistant.index.graph import Image, PostNode, Thing, WebPage

pytestmark = pytest.mark.integration

NOON = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
ALICE = Entity(EntityKind.PERSON, "Alice")
BOB = Entity(EntityKind.PERSON, "Bob")
ACME = Entity(EntityKind.ORGANISATION, "Acme")
PARIS = Entity(EntityKind.PLACE, "Paris")
HOSTILE = [
    "O'Reilly",
    'say "hi"',
    "'}) DETACH DELETE n //",
    "$key",
    "a\x00b",
    "😀🇷🇺",
    "back\\slash\\'",
    "line\nbreak\t",
    "Ж" * 4096,
    "😀" * 4096,
    " ",
    "",
    "NULL",
]


def post(tenant: UUID, number: int = 1, **fields: Any) -> PostNode:
    known: dict[str, Any] = {
        "tenant_id": tenant,
        "post_id": uuid4(),
        "channel_id": -1001234567890,
        "channel_title": "News",
        "message_id": number,
        "posted_at": NOON + timedelta(minutes=number),
    }
    return PostNode(**(known | fields))


def rich(tenant: UUID, **fields: Any) -> PostNode:
    """A post with everything."""
    known: dict[str, Any] = {
        "tags": ("zebra", "apple", "mango"),
        "topics": ("Politics", "Economy"),
        "images": (Image(sha256="b" * 64, labels=("tree", "house")), Image(sha256="a" * 64)),
        "pages": (WebPage(url="https://example.org/b", title="B"), WebPage(url="https://example.org/a")),
        "entities": (PARIS, ALICE, ACME),
        "forwarded_channel_id": -1009,
        "forwarded_message_id": 77,
        "replies_to": uuid4(),
        "album_id": uuid4(),
    }
    return post(tenant, **(known | fields))


async def counts(graph: Graph, tenant: UUID) -> dict[str, int]:
    return {label: nodes for label, nodes in (await graph.counts(tenant)).items() if nodes}


async def test_a_post_comes_back_as_it_was_put(graph: Graph, tenant: UUID) -> None:
    simple, full = post(tenant), rich(tenant)
    await graph.put([simple, full])
    assert await graph.node(tenant, simple.post_id) == simple
    assert await graph.node(tenant, full.post_id) == full
    assert await graph.node(tenant, uuid4()) is None


async def test_times_are_kept_in_utc(graph: Graph, tenant: UUID) -> None:
    moscow = timezone(timedelta(hours=3))
    one = post(tenant, posted_at=NOON.astimezone(moscow))
    await graph.put([one])
    stored = await graph.node(tenant, one.post_id)
    assert stored is not None
    assert (stored.posted_at, stored.posted_at.utcoffset()) == (NOON, timedelta(0))


async def test_putting_again_changes_nothing(graph: Graph, tenant: UUID) -> None:
    one = rich(tenant)
    await graph.put([one])
    before = await graph.counts(tenant)
    await graph.put([one, one])
    await graph.put([one])
    assert await graph.counts(tenant) == before
    assert await graph.node(tenant, one.post_id) == one


async def test_each_kind_of_node_is_counted(graph: Graph, tenant: UUID) -> None:
    assert set((await graph.counts(tenant)).values()) == {0}
    await graph.put([rich(tenant)])
    await graph.put_interests(tenant, uuid4(), {"Sport": 0.5})
    assert await graph.counts(tenant) == {
        "Channel": 2,
        "Post": 1,
        "Tag": 3,
        "Topic": 3,
        "Image": 2,
        "Label": 2,
        "WebPage": 2,
        "Entity": 3,
        "Album": 1,
        "User": 1,
    }


async def test_putting_replaces_all_relations(graph: Graph, tenant: UUID) -> None:
    before = rich(tenant)
    await graph.put([before])
    after = replace(
        before,
        tags=("mango", "new"),
        topics=(),
        images=(Image(sha256="c" * 64, labels=("cat",)),),
        pages=(),
        entities=(BOB,),
        forwarded_channel_id=None,
        forwarded_message_id=None,
        replies_to=None,
        album_id=None,
        channel_title="Newer",
    )
    await graph.put([after])
    assert await graph.node(tenant, before.post_id) == after
    assert await counts(graph, tenant) == {"Channel": 1, "Post": 1, "Tag": 2, "Image": 1, "Label": 1, "Entity": 1}


async def test_what_others_hold_stays(graph: Graph, tenant: UUID) -> None:
    one, other = rich(tenant), rich(tenant, message_id=2)
    await graph.put([one, other])
    await graph.put([replace(one, tags=(), topics=(), images=(), pages=(), entities=())])
    assert await graph.node(tenant, other.post_id) == other
    await graph.remove(tenant, [one.post_id])
    assert await graph.node(tenant, other.post_id) == other


async def test_removing_takes_what_only_that_post_held(graph: Graph, tenant: UUID) -> None:
    stays = post(tenant, tags=("apple",), topics=("Economy",), entities=(ALICE,))
    goes = rich(tenant, message_id=2)
    await graph.put([stays, goes])
    for _ in range(2):
        await graph.remove(tenant, [goes.post_id, uuid4()])
    assert await graph.node(tenant, goes.post_id) is None
    assert await graph.node(tenant, stays.post_id) == stays
    assert await counts(graph, tenant) == {"Channel": 1, "Post": 1, "Tag": 1, "Topic": 1, "Entity": 1}
    await graph.remove(tenant, [stays.post_id])
    assert await counts(graph, tenant) == {}


async def test_nothing_to_do(graph: Graph, tenant: UUID) -> None:
    await graph.put([])
    await graph.remove(tenant, [])
    await graph.remove(tenant, [uuid4()])
    await graph.drop(tenant)
    assert await graph.neighbours(tenant, uuid4()) == []
    assert await graph.forwards(tenant, uuid4()) == []
    assert await graph.interests(tenant, uuid4()) == {}
    assert await counts(graph, tenant) == {}


async def test_doubles_within_a_post_count_once(graph: Graph, tenant: UUID) -> None:
    one = post(tenant, tags=("a", "b", "a"), entities=(ALICE, ALICE), images=(Image(sha256="d" * 64),) * 2)
    await graph.put([one])
    stored = await graph.node(tenant, one.post_id)
    assert stored == replace(one, tags=("a", "b"), entities=(ALICE,), images=(Image(sha256="d" * 64),))


async def test_a_reply_may_come_before_its_post(graph: Graph, tenant: UUID) -> None:
    question = post(tenant, 1)
    answer = post(tenant, 2, replies_to=question.post_id)
    await graph.put([answer])
    assert await graph.node(tenant, question.post_id) is None
    assert (await counts(graph, tenant))["Post"] == 1
    await graph.put([question])
    assert await graph.node(tenant, question.post_id) == question
    assert await graph.node(tenant, answer.post_id) == answer
    await graph.remove(tenant, [question.post_id])
    assert await graph.node(tenant, question.post_id) is None
    assert await graph.node(tenant, answer.post_id) == answer
    await graph.remove(tenant, [answer.post_id])
    await graph.put_interests(tenant, uuid4(), {})
    assert await counts(graph, tenant) == {}


async def test_a_post_and_its_reply_in_one_batch(graph: Graph, tenant: UUID) -> None:
    question = rich(tenant)
    answer = post(tenant, 2, replies_to=question.post_id)
    await graph.put([answer, question])
    assert [await graph.node(tenant, one.post_id) for one in (question, answer)] == [question, answer]


async def test_titles_and_labels_that_are_known_stay_known(graph: Graph, tenant: UUID) -> None:
    """A second post may know less: its pictures are not analysed yet, its page was not crawled."""
    one = post(tenant, images=(Image(sha256="e" * 64, labels=("cat", "dog")),), pages=(WebPage(url="u", title="T"),))
    less = post(tenant, 2, channel_title="", images=(Image(sha256="e" * 64),), pages=(WebPage(url="u"),))
    await graph.put([one])
    await graph.put([less])
    assert await graph.node(tenant, one.post_id) == one
    stored = await graph.node(tenant, less.post_id)
    assert stored == replace(less, channel_title="News", images=one.images, pages=one.pages)
    again = replace(less, images=(Image(sha256="e" * 64, labels=("bird",)),), pages=(WebPage(url="u", title="New"),))
    await graph.put([again])
    stored = await graph.node(tenant, one.post_id)
    assert stored is not None
    assert (stored.images, stored.pages) == (again.images, again.pages)
    assert (await counts(graph, tenant))["Label"] == 1


async def test_hostile_names_are_only_names(graph: Graph, tenant: UUID) -> None:
    posts = [
        post(
            tenant,
            number,
            channel_id=number + 1,
            channel_title=word,
            tags=(word,),
            topics=(word,),
            images=(Image(sha256=word, labels=(word,)),),
            pages=(WebPage(url=word, title=word),),
            entities=(Entity(EntityKind.PERSON, word), Entity(EntityKind.PLACE, word)),
        )
        for number, word in enumerate(HOSTILE)
    ]
    await graph.put(posts)
    for one, word in zip(posts, HOSTILE, strict=True):
        assert await graph.node(tenant, one.post_id) == one, word
        held = await graph.holders(tenant, Thing.ENTITY, word, channels=[one.channel_id])
        assert held == [one.post_id], word
    await graph.put_interests(tenant, posts[0].post_id, dict.fromkeys(HOSTILE, 0.5))
    assert await graph.interests(tenant, posts[0].post_id) == dict.fromkeys(HOSTILE, 0.5)
    assert (await counts(graph, tenant))["Tag"] == len(HOSTILE)
    await graph.remove(tenant, [one.post_id for one in posts])
    assert await counts(graph, tenant) == {"User": 1, "Topic": len(HOSTILE)}


async def test_rare_things_make_nearer_neighbours(graph: Graph, tenant: UUID) -> None:
    start = post(tenant, 1, tags=("common", "rare"), entities=(ALICE,), pages=(WebPage(url="https://p"),))
    by_rare = post(tenant, 2, tags=("rare",))
    by_common = post(tenant, 3, tags=("common",))
    by_both = post(tenant, 4, tags=("common", "rare"), topics=("Economy",))
    by_page = post(tenant, 5, pages=(WebPage(url="https://p"),), entities=(ALICE,))
    by_topic_only = post(tenant, 6, topics=("Economy",))
    crowd = [post(tenant, 10 + number, tags=("common",)) for number in range(6)]
    await graph.put([start, by_rare, by_common, by_both, by_page, by_topic_only, *crowd])
    found = await graph.neighbours(tenant, start.post_id, limit=4)
    assert [one.post_id for one in found[:3]] == [by_page.post_id, by_both.post_id, by_rare.post_id]
    assert [one.shared for one in found[:3]] == [("Alice", "https://p"), ("common", "rare"), ("rare",)]
    # Held by 2, 2; by 9 and 3; by 3; by 9.
    assert [one.score for one in found] == pytest.approx([2 / 2**0.5, 1 / 3 + 1 / 3**0.5, 1 / 3**0.5, 1 / 3], abs=1e-5)
    assert len(found) == 4
    assert by_topic_only.post_id not in {one.post_id for one in await graph.neighbours(tenant, start.post_id, limit=99)}


async def test_what_everybody_has_makes_no_neighbours(graph: Graph, tenant: UUID) -> None:
    crowd = [post(tenant, number, tags=("everywhere",)) for number in range(1, 1002)]
    pair = [post(tenant, 2000 + number, tags=("everywhere", "seldom")) for number in range(2)]
    await graph.put([*crowd, *pair])
    found = await graph.neighbours(tenant, pair[0].post_id)
    assert [(one.post_id, one.shared) for one in found] == [(pair[1].post_id, ("seldom",))]
    assert await graph.neighbours(tenant, crowd[0].post_id) == []


async def test_forwards_share_their_origin(graph: Graph, tenant: UUID) -> None:
    origin = post(tenant, 10, channel_id=-5)
    away = {"channel_id": -6, "forwarded_channel_id": -5}
    first = post(tenant, 20, **away, forwarded_message_id=10)
    second = post(tenant, 30, **away, forwarded_message_id=10)
    another = post(tenant, 40, **away, forwarded_message_id=11)
    vague = post(tenant, 50, **away)
    await graph.put([second, another, first, vague])
    assert await graph.forwards(tenant, first.post_id) == [second.post_id]
    await graph.put([origin])
    assert await graph.forwards(tenant, first.post_id) == [origin.post_id, second.post_id]
    assert await graph.forwards(tenant, origin.post_id) == [first.post_id, second.post_id]
    assert await graph.forwards(tenant, origin.post_id, limit=1) == [first.post_id]
    assert await graph.forwards(tenant, another.post_id) == []
    assert await graph.forwards(tenant, vague.post_id) == []
    assert await graph.node(tenant, vague.post_id) == vague


async def test_who_holds_a_thing(graph: Graph, tenant: UUID) -> None:
    company = Entity(EntityKind.ORGANISATION, "Paris")
    one = post(tenant, 1, entities=(PARIS,), tags=("Paris",))
    two = post(tenant, 2, entities=(company, ALICE), topics=("Paris",), channel_id=5)
    three = post(tenant, 3, entities=(PARIS, company))
    await graph.put([one, two, three])
    here, there = one.channel_id, two.channel_id

    async def held(thing: Thing, name: str, *channels: int, limit: int = 10) -> list[UUID]:
        return await graph.holders(tenant, thing, name, channels=channels, limit=limit)

    every = [three.post_id, two.post_id, one.post_id]
    assert await held(Thing.ENTITY, "Paris", here, there) == every, "the newest first, of every kind, each once"
    assert await held(Thing.ENTITY, "Paris", here, there, limit=2) == every[:2]
    assert await held(Thing.ENTITY, "Paris", there) == [two.post_id]
    assert await held(Thing.TAG, "Paris", here, there) == [one.post_id]
    assert await held(Thing.TOPIC, "Paris", here, there) == [two.post_id]
    assert await held(Thing.ENTITY, "Paris") == await held(Thing.ENTITY, "nobody", here) == []
    assert await graph.holders(uuid4(), Thing.ENTITY, "Paris", channels=[here]) == []


async def test_interests_are_replaced(graph: Graph, tenant: UUID) -> None:
    user, other = uuid4(), uuid4()
    await graph.put_interests(tenant, user, {"Economy": 0.75, "Sport": 1})
    await graph.put_interests(tenant, other, {"Sport": 0.5})
    assert await graph.interests(tenant, user) == {"Economy": 0.75, "Sport": 1.0}
    await graph.put_interests(tenant, user, {"Economy": 0.25})
    assert await graph.interests(tenant, user) == {"Economy": 0.25}
    assert await graph.interests(tenant, other) == {"Sport": 0.5}
    await graph.put_interests(tenant, user, {})
    assert await counts(graph, tenant) == {"User": 1, "Topic": 1}


async def test_tenants_do_not_see_each_other(graph: Graph, tenant: UUID) -> None:
    stranger, user = uuid4(), uuid4()
    ours = rich(tenant)
    theirs = replace(ours, tenant_id=stranger, tags=("zebra",), channel_title="Theirs")
    mate = rich(stranger, channel_title="Theirs", message_id=2, entities=(ALICE, ACME, BOB))
    await graph.put([ours, theirs, mate])
    await graph.put_interests(stranger, user, {"Economy": 1.0})
    assert await graph.node(tenant, ours.post_id) == ours
    assert await graph.node(stranger, ours.post_id) == theirs
    assert await graph.neighbours(tenant, ours.post_id) == []
    assert await graph.forwards(tenant, ours.post_id) == []
    assert await graph.interests(tenant, user) == {}
    before = await graph.counts(tenant)
    await graph.remove(stranger, [theirs.post_id])
    await graph.drop(stranger)
    assert await counts(graph, stranger) == {}
    assert await graph.counts(tenant) == before
    assert await graph.node(tenant, ours.post_id) == ours
    await graph.drop(tenant)
    assert await counts(graph, tenant) == {}


async def test_more_posts_than_one_transaction_takes(graph: Graph, tenant: UUID) -> None:
    posts = [rich(tenant, message_id=number + 1, tags=(f"tag {number % 40}",)) for number in range(600)]
    await graph.put(posts)
    assert (await counts(graph, tenant))["Post"] == 600
    assert await graph.node(tenant, posts[555].post_id) == posts[555]
    await graph.remove(tenant, [one.post_id for one in posts[1:]])
    assert await graph.node(tenant, posts[0].post_id) == posts[0]
    assert (await counts(graph, tenant))["Tag"] == 1


async def test_writers_at_the_same_time(graph: Graph, tenant: UUID) -> None:
    """Redelivered events: several workers put the same posts, others take theirs away."""
    same = [rich(tenant, message_id=number + 1, tags=("shared", f"own {number}")) for number in range(10)]
    passing = [post(tenant, 100 + number, tags=("shared",), entities=(ALICE,)) for number in range(10)]
    await graph.put(passing)
    await asyncio.gather(
        *(graph.put(same) for _ in range(4)),
        *(graph.put(list(reversed(same))) for _ in range(4)),
        *(graph.remove(tenant, [one.post_id]) for one in passing),
        *(graph.neighbours(tenant, same[0].post_id) for _ in range(4)),
    )
    for one in same:
        assert await graph.node(tenant, one.post_id) == one
    assert (await counts(graph, tenant))["Tag"] == 11


async def test_a_mark_tells_one_graph_from_another(graph: Graph) -> None:
    """N14. It belongs to no tenant, and is no node that counts."""
    await graph.set_mark("first")
    assert await graph.mark() == "first"
    await graph.set_mark("second")
    assert await graph.mark() == "second"


async def test_which_posts_were_put(graph: Graph, tenant: UUID) -> None:
    put, answered, unknown = uuid4(), uuid4(), uuid4()
    await graph.put([post(tenant, post_id=put, replies_to=answered)])
    assert await graph.known(tenant, [put, answered, unknown]) == {put}
    assert await graph.known(uuid4(), [put]) == set()
    assert await graph.known(tenant, []) == set()
