"""Interests: noted, chosen, forgotten and brought to the graph; recommendations from them, tenants apart."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest

from telegram_assistant.domain.access import SYSTEM_USER, Caller, Role, Via
from telegram_assistant.domain.interests import MOST_TOPICS, Act
from telegram_assistant.errors import Reject
from telegram_assistant.jobs.interests import Advisor, sync_interests
from telegram_assistant.services.reading import note
from telegram_assistant.services.services import Services
from telegram_assistant.stores.postgres.interests import Interests
from tests.integration.conftest import PRIVATE, Person, Town
from tests.integration.search.archive import NEWS, POSTED, SPORT, SYSTEM, Archive

pytestmark = pytest.mark.integration

NOW = POSTED + timedelta(hours=12)


def caller_of(person: Person) -> Caller:
    return Caller(
        tenant_id=person.tenant_id,
        tenant="of a test",
        user_id=person.user_id,
        name="of a test",
        role=person.role,
        via=Via.KEY,
        csrf="",
    )


async def known(services: Services, person: Person) -> dict[str, tuple[float, float]]:
    found = await Interests(services.database).of_user(person.tenant_id, person.user_id)
    return {one.topic: (round(one.queries, 3), round(one.views, 3)) for one in found}


async def test_what_people_do_is_noted(town: Town, services: Services) -> None:
    caller = caller_of(town.member)
    await note(services, caller, Act.SEARCH, ["Space", "space", "лунная\0 база"])
    await note(services, caller, Act.VIEW, ["space"])
    await note(services, caller, Act.CLICK, ["space", "", "  "])
    assert await known(services, town.member) == {"space": (1, 2), "лунная база": (1, 0)}
    assert await known(services, town.admin) == {}
    assert await known(services, town.other) == {}


async def test_counts_fade_with_time(town: Town, services: Services) -> None:
    store = Interests(services.database)
    own = town.member.tenant_id, town.member.user_id
    await store.note(*own, Act.SEARCH, ["space"], now=NOW - timedelta(days=30))
    await store.note(*own, Act.SEARCH, ["space"], now=NOW)
    assert await known(services, town.member) == {"space": (1.368, 0)}
    await store.note(*own, Act.SEARCH, ["old"], now=NOW - timedelta(days=200))
    await store.choose(*own, "chosen", 0.5, now=NOW - timedelta(days=200))
    await store.forget_faded(NOW)
    assert set(await known(services, town.member)) == {"space", "chosen"}


async def test_what_somebody_never_wants_is_not_learned(town: Town, services: Services) -> None:
    own = town.member.tenant_id, town.member.user_id
    await Interests(services.database).choose(*own, "ads", 0, now=NOW)
    await note(services, caller_of(town.member), Act.VIEW, ["ads", "space"])
    assert await known(services, town.member) == {"ads": (0, 0), "space": (0, 1)}
    assert list(await Advisor(services.database, services.clock).weights(*own)) == ["space"]


async def test_five_hundred_topics_are_too_many(town: Town, services: Services) -> None:
    store = Interests(services.database)
    own = town.member.tenant_id, town.member.user_id
    await store.note(*own, Act.VIEW, [f"topic {number}" for number in range(MOST_TOPICS)], now=NOW)
    await store.note(*own, Act.VIEW, ["one more", "topic 7"], now=NOW)
    found = await known(services, town.member)
    assert len(found) == MOST_TOPICS
    assert found["topic 7"][1] == 2
    await store.choose(*own, "topic 7", 1, now=NOW)
    with pytest.raises(Reject, match="forget one first"):
        await store.choose(*own, "one more", 1, now=NOW)


async def test_nobody_notes_for_another_tenant(town: Town, services: Services) -> None:
    await Interests(services.database).note(SYSTEM, town.other.user_id, Act.VIEW, ["space"], now=NOW)
    assert await known(services, town.other) == {}
    await note(services, caller_of(town.member), Act.VIEW, ["space"])
    assert await Interests(services.database).forget(town.other.tenant_id, town.member.user_id) == 0
    assert await known(services, town.member) == {"space": (0, 1)}


async def test_the_system_has_no_interests(services: Services) -> None:
    nobody = Caller(
        tenant_id=SYSTEM,
        tenant="system",
        user_id=UUID(SYSTEM_USER),
        name="system",
        role=Role.SYSTEM,
        via=Via.KEY,
        csrf="",
    )
    await note(services, nobody, Act.VIEW, ["space"])
    assert await Interests(services.database).people() == []


async def test_the_graph_follows(town: Town, services: Services) -> None:
    assert services.graph is not None
    now = services.clock()
    work = sync_interests(services.database, services.graph)
    own = town.member.tenant_id, town.member.user_id
    await note(services, caller_of(town.member), Act.SEARCH, ["space"])
    await note(services, caller_of(town.other), Act.VIEW, ["sport"])
    assert await work(now) == "2 of 5 people changed"
    assert await services.graph.interests(*own) == {"space": 1.0}
    assert await services.graph.interests(town.other.tenant_id, town.other.user_id) == {"sport": 1.0}
    assert await work(now) == "0 of 5 people changed"
    await Interests(services.database).forget(*own)
    assert await work(now) == "1 of 5 people changed"
    assert await services.graph.interests(*own) == {}


async def test_without_a_graph_nothing_fails(services: Services) -> None:
    assert "another process" in (await sync_interests(services.database, None)(NOW) or "")


@pytest.fixture
async def filled(archive: Archive, town: Town) -> Archive:  # noqa: ARG001 - its people and channels
    """Posts about space in two channels, a copy of one, and some that are hidden."""
    texts = [" ".join(f"word{number}{place}" for place in range(12)) for number in range(6)]
    for number in range(1, 6):
        await archive.post(number, texts[number], topics=("space",), tags=("луна",) if number == 5 else ())
    await archive.post(6, texts[5], channel=SPORT, topics=("space",), tags=("луна",))
    await archive.post(7, "матч", channel=SPORT, topics=("sport",))
    await archive.post(8, "удалено", topics=("space",), marks=("deleted",))
    await archive.post(9, "тайна", channel=PRIVATE, topics=("space",))
    return archive


def advisor(services: Services) -> Advisor:
    return Advisor(services.database, lambda: NOW)


@pytest.mark.usefixtures("filled")
async def test_posts_that_fit_are_recommended(town: Town, services: Services) -> None:
    own = town.member.tenant_id, town.member.user_id
    store = Interests(services.database)
    assert (await advisor(services).recommend(*own)).posts == ()
    await store.choose(*own, "space", 0.5, now=NOW)
    await store.choose(*own, "луна", 1.0, now=NOW)
    found = await advisor(services).recommend(*own)
    numbers = [(one.post.channel_id, one.post.message_id) for one in found.posts]
    # The one that meets both comes first, its copy not at all, and of a channel at most three.
    assert numbers == [(SPORT, 6), (NEWS, 4), (NEWS, 3), (NEWS, 2)]
    assert found.posts[0].why == ("луна", "space")
    assert [(one.channel_id, one.fitting, one.posts) for one in found.channels] == [(NEWS, 5, 5)]
    assert (await advisor(services).recommend(*own, limit=1)).posts == found.posts[:1]


@pytest.mark.usefixtures("filled")
async def test_another_tenant_is_recommended_its_own(town: Town, services: Services) -> None:
    own = town.other.tenant_id, town.other.user_id
    await Interests(services.database).choose(*own, "space", 1.0, now=NOW)
    found = await advisor(services).recommend(*own)
    assert [one.post.message_id for one in found.posts] == [9]


async def test_channels_that_are_forwarded_are_recommended(town: Town, archive: Archive, services: Services) -> None:
    """A public one that is known, and neither a private one nor one that is watched."""
    await archive.channel(400, "orbit")
    await archive.channel(500, "hidden", owner=town.other.tenant_id)
    for number, (channel, origin) in enumerate([(NEWS, 400), (SPORT, 400), (NEWS, 500), (NEWS, SPORT), (NEWS, 999)]):
        post = await archive.post(20 + number, f"пересказ {number}", channel=channel, topics=("space",))
        await archive.run(
            "UPDATE posts SET details = jsonb_build_object('forward', jsonb_build_object('channel_id', CAST(:origin"
            " AS bigint), 'message_id', 1)) WHERE id = :id",
            origin=origin,
            id=post,
        )
    own = town.member.tenant_id, town.member.user_id
    await Interests(services.database).choose(*own, "space", 1.0, now=NOW)
    found = await advisor(services).recommend(*own)
    assert [(one.username, one.posts, one.channels) for one in found.origins] == [("orbit", 2, 2)]
