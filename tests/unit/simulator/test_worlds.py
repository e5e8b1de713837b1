"""Worlds from a seed: everything that Telegram has occurs in them, and the same seed gives the same world."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random

import pytest

from telegram_simulator.archive import Archive
from telegram_simulator.draft import CAPTION_LIMIT, POST_LIMIT, units
from telegram_simulator.generate import EVENT_HOURS, PASSWORD, TEMPERS, build_world, demo_world
from telegram_simulator.model import Channel, Ids, Kind, Message
from telegram_simulator.phrasebook import plots
from telegram_simulator.texts import new_story
from telegram_simulator.truth import truth_of
from telegram_simulator.voices import TOPICS
from telegram_simulator.world import World

pytestmark = pytest.mark.unit

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
HOST = "http://pages.test"
FIRST_EDITION = "defc86b08dd04aec01b4dd7e544239cbd08deb611992e60782ef3b43b481c69d"


@pytest.fixture(scope="module")
def world() -> World:
    return build_world(seed=7, channels=30, posts=200, now=NOW, readers=2, link_host=HOST)


@pytest.fixture(scope="module")
def broadcasts(world: World) -> list[Channel]:
    return [channel for channel in world.channels.values() if not channel.group]


@pytest.fixture(scope="module")
def messages(broadcasts: list[Channel]) -> list[Message]:
    return [message for channel in broadcasts for message in channel.messages.values()]


def albums(channel: Channel) -> dict[int, list[Message]]:
    """Whole albums, as they were posted."""
    found: dict[int, list[Message]] = defaultdict(list)
    for message in sorted((*channel.messages.values(), *channel.deleted.values()), key=lambda m: m.id):
        if message.grouped_id is not None:
            found[message.grouped_id].append(message)
    return found


def fingerprint(world: World) -> str:
    truth = {**truth_of(world), "now": None}
    return hashlib.sha256(json.dumps(truth, sort_keys=True).encode()).hexdigest()


def test_the_same_seed_gives_the_same_world() -> None:
    one, two, other = (build_world(seed=seed, channels=8, posts=40, now=NOW) for seed in (3, 3, 4))
    assert fingerprint(one) == fingerprint(two)
    assert fingerprint(one) != fingerprint(other)
    some = sorted(one.files)[:12]
    assert [one.files[i].data for i in some] == [two.files[i].data for i in some]


def test_a_channel_posts_when_it_does_whatever_others_there_are() -> None:
    few, many = (build_world(seed=3, channels=n, posts=40, now=NOW, spread=0, private_share=0) for n in (4, 9))
    for channel in few.channels.values():
        twin = many.channels[channel.id]
        if not channel.group:
            moments = [{m.date for m in (*c.messages.values(), *c.deleted.values())} for c in (channel, twin)]
            assert moments[0] == moments[1]


def test_sizes_are_as_asked_for_and_span_orders_of_magnitude(broadcasts: list[Channel]) -> None:
    sizes = [len(channel.messages) for channel in broadcasts]
    assert len(sizes) == 30
    assert abs(sum(sizes) - 6000) < 900
    assert max(sizes) > 50 * min(sizes)


def test_channels_differ_in_temper_language_and_topic(broadcasts: list[Channel]) -> None:
    assert {channel.temper for channel in broadcasts} == set(TEMPERS)
    assert Counter(channel.language for channel in broadcasts) == {"ru": 20, "en": 10}
    assert len({channel.topic for channel in broadcasts}) >= 5
    usernames = [channel.username for channel in broadcasts if channel.username]
    assert len(set(usernames)) == len(usernames)


def test_ids_and_dates_ascend_and_every_hole_was_deleted(world: World) -> None:
    for channel in world.channels.values():
        assert list(channel.messages) == sorted(channel.messages)
        assert set(channel.messages) | set(channel.deleted) == set(range(1, channel.newest_id + 1))
        everything = sorted((*channel.messages.values(), *channel.deleted.values()), key=lambda m: m.id)
        assert all(a.date <= b.date for a, b in pairwise(everything))
        assert all(message.date <= NOW and message.date.microsecond == 0 for message in everything)
        assert channel.pts == 1 + sum(change.count for change in channel.changes)


def test_deletions_differ_by_channel(broadcasts: list[Channel]) -> None:
    shares = [len(c.deleted) / c.newest_id for c in broadcasts if c.newest_id > 100]
    assert min(shares) < 0.02
    assert 0.2 < max(shares) < 0.55


def test_every_kind_of_message_occurs(messages: list[Message]) -> None:
    occurs: dict[str, Callable[[Message], object]] = {
        "photo": lambda m: m.file and m.file.kind is Kind.PHOTO,
        "document": lambda m: m.file and m.file.kind is Kind.DOCUMENT,
        "bare photo": lambda m: m.file and not m.text and m.grouped_id is None,
        "forward": lambda m: m.forward,
        "reply": lambda m: m.reply_to and not m.service,
        "poll": lambda m: m.poll and len(m.poll.answers) >= 2,
        "pinned": lambda m: m.pinned,
        "signed": lambda m: m.author,
        "edited": lambda m: m.edited and m.versions and m.edited > m.date,
        "short": lambda m: 0 < len(m.text) < 6,
        "long": lambda m: units(m.text) > 3000,
        "viewed": lambda m: m.counters.views > 1000,
        "shared": lambda m: m.counters.forwards,
        "liked": lambda m: len(m.counters.reactions) > 2,
        "commented": lambda m: m.counters.replies,
        "story": lambda m: m.story,
    }
    missing = [name for name, test in occurs.items() if sum(bool(test(m)) for m in messages) < 5]
    assert missing == []
    assert {m.service.action for m in messages if m.service} == {"created", "pin", "title", "photo"}


def test_every_kind_of_entity_occurs_and_cuts_the_right_words(messages: list[Message]) -> None:
    kinds = set()
    after_emoji = 0
    for message in messages:
        raw = message.text.encode("utf-16-le")
        for e in message.entities:
            words = raw[2 * e.offset : 2 * (e.offset + e.length)].decode("utf-16-le")
            assert words
            assert words == words.strip()
            assert e.kind not in {"url", "text_url"} or (e.url or words).startswith(HOST)
            assert e.kind != "hashtag" or (words[0] == "#" and " " not in words)
            assert e.kind != "mention" or words[0] == "@"
            kinds.add(e.kind)
            after_emoji += message.text[e.offset : e.offset + e.length] != words
    assert kinds == {
        "bold", "italic", "url", "text_url", "hashtag", "mention", "code", "pre", "strike", "spoiler", "blockquote"
    }  # fmt: skip
    assert after_emoji > 500  # code points would have been wrong


def test_texts_keep_telegrams_limits(messages: list[Message]) -> None:
    for message in messages:
        assert units(message.text) <= (POST_LIMIT if message.file is None else CAPTION_LIMIT)
        assert message.text == message.text.strip()


def test_albums_are_whole_runs_of_two_to_ten(broadcasts: list[Channel]) -> None:
    sizes: Counter[int] = Counter()
    kinds: Counter[frozenset[Kind]] = Counter()
    for channel in broadcasts:
        for items in albums(channel).values():
            ids = [item.id for item in items]
            assert ids == list(range(ids[0], ids[0] + len(ids)))
            assert 2 <= len(ids) <= 10
            assert len({item.date for item in items}) == 1
            sizes[len(ids)] += 1
            kinds[frozenset(item.file.kind for item in items if item.file)] += 1
    assert set(sizes) == set(range(2, 11))
    assert set(kinds) == {
        frozenset({Kind.PHOTO}), frozenset({Kind.DOCUMENT}), frozenset({Kind.PHOTO, Kind.DOCUMENT})
    }  # fmt: skip


def test_some_albums_lost_an_item_inside(broadcasts: list[Channel]) -> None:
    torn = 0
    for channel in broadcasts:
        for items in albums(channel).values():
            alive = [item.id in channel.messages for item in items]
            torn += alive[0] and alive[-1] and not all(alive)
    assert torn >= 3


def test_forwards_name_a_post_of_another_public_channel(world: World, broadcasts: list[Channel]) -> None:
    for channel in broadcasts:
        for message in channel.messages.values():
            if message.forward:
                origin = world.channels[message.forward.channel_id]
                assert origin.id != channel.id or message.forward.message_id < message.id
                assert not origin.private
                source = origin.messages.get(message.forward.message_id) or origin.deleted[message.forward.message_id]
                assert source.date == message.forward.date
                assert source.date <= message.date


def test_comments_hang_under_the_copy_of_their_post(world: World, broadcasts: list[Channel]) -> None:
    comments = 0
    for channel in broadcasts:
        if channel.linked_id is None:
            continue
        group = world.channels[channel.linked_id]
        assert (group.group, group.linked_id) == (True, channel.id)
        alive = Counter(m.comment_to for m in group.messages.values() if m.comment_to)
        for message in channel.messages.values():
            assert message.counters.replies == alive[message.id]
        everything = {**group.messages, **group.deleted}
        for comment in group.messages.values():
            if comment.comment_to:
                comments += 1
                assert comment.sender_id in world.users
                target = everything[comment.reply_to or 0]
                assert target.comment_to == comment.comment_to or (
                    target.forward is not None and target.forward.message_id == comment.comment_to
                )
    assert comments > 100


def test_stories_are_told_by_several_channels_in_other_words(broadcasts: list[Channel]) -> None:
    tellings: dict[int, list[tuple[datetime, int, str]]] = defaultdict(list)
    for channel in broadcasts:
        for message in channel.messages.values():
            if message.story and not message.forward:
                tellings[message.story].append((message.date, channel.id, message.text))
    shared = [sorted(told) for told in tellings.values() if len({channel for _, channel, _ in told}) > 1]
    assert len(shared) > 200
    assert all(told[-1][0] - told[0][0] < timedelta(hours=31) for told in shared)
    assert sum(len({text for *_, text in told}) == len(told) for told in shared) > 0.95 * len(shared)


def test_older_posts_were_seen_more(broadcasts: list[Channel]) -> None:
    fresh: list[float] = []
    old: list[float] = []
    for channel in broadcasts:
        for message in channel.messages.values():
            if message.service is None:
                age = NOW - message.date
                seen = message.counters.views / channel.subscribers
                (fresh if age < timedelta(hours=2) else old if age > timedelta(days=2) else []).append(seen)
    assert len(fresh) > 5
    assert sum(fresh) / len(fresh) < 0.5 * sum(old) / len(old)


def test_readers_and_private_channels(world: World, broadcasts: list[Channel]) -> None:
    first, second = (user for user in world.users.values() if user.phone)
    assert (first.password, second.password) == (None, PASSWORD)
    assert world.by_username("@reader1") is first
    private = [channel for channel in broadcasts if channel.private]
    assert len(private) == 3
    assert all(channel.username is None for channel in private)
    assert {first.id in channel.members for channel in private} == {True, False}
    joined = sum(first.id in channel.members for channel in broadcasts)
    assert 18 <= joined < 30
    assert not any(
        c.private for c in build_world(seed=1, channels=6, posts=3, now=NOW, private_share=0).channels.values()
    )


def test_dead_channels_are_silent_and_the_others_are_not(broadcasts: list[Channel]) -> None:
    for channel in broadcasts:
        last = max(message.date for message in channel.messages.values())
        if channel.temper == "dead":
            assert NOW - last > timedelta(days=60)
            assert channel.rate == 0
        elif len(channel.messages) > 100:
            assert NOW - last < timedelta(days=4)


def test_files_know_their_size_without_being_drawn(world: World) -> None:
    some = sorted(world.files)[::150]
    assert len(some) > 10
    for file_id in some:
        file = world.files[file_id]
        assert file.length is not None
        assert file.size == len(file.data)
        assert file.mime == {b"\xff\xd8": "image/jpeg", b"%P": "application/pdf"}.get(file.data[:2], file.mime)


@pytest.mark.parametrize("channels,posts", [(0, 10), (1, 1), (2, 0), (1, 300)])
def test_small_worlds(channels: int, posts: int) -> None:
    world = build_world(seed=5, channels=channels, posts=posts, now=NOW, days=1)
    broadcasts = [channel for channel in world.channels.values() if not channel.group]
    assert len(broadcasts) == channels
    assert all(channel.messages for channel in broadcasts)


def test_the_clock_goes_on_from_now() -> None:
    world = build_world(seed=5, channels=1, posts=5, now=NOW)
    assert timedelta(0) <= world.now() - NOW < timedelta(minutes=5)
    assert build_world(seed=5, channels=1, posts=5, now=NOW, clock=lambda: NOW).now() == NOW


def test_the_demo_world_is_fit_to_be_shown() -> None:
    world = demo_world(now=NOW)
    broadcasts = [channel for channel in world.channels.values() if not channel.group]
    assert len(broadcasts) == 12
    assert all(30 <= len(channel.messages) <= 80 for channel in broadcasts)
    assert Counter(channel.language for channel in broadcasts) == {"ru": 8, "en": 4}
    assert all(channel.username and world.by_username(channel.username) is channel for channel in broadcasts)
    newest = max(m.date for channel in broadcasts for m in channel.messages.values())
    assert NOW - newest < timedelta(hours=3)
    assert sum(m.file is not None for channel in broadcasts for m in channel.messages.values()) > 100


def test_demos_of_the_first_edition_stay_as_they_were() -> None:
    """They are made anew at each start, and posts of theirs are stored: this must not change."""
    former = demo_world(now=NOW, edition=1)
    told = [
        (channel.id, message.id, message.date.isoformat(), message.text)
        for channel in former.channels.values()
        for message in channel.messages.values()
    ]
    assert hashlib.sha256(json.dumps(told).encode()).hexdigest() == FIRST_EDITION


@pytest.mark.parametrize("hours", [0, 7, 15])
def test_on_the_last_day_of_the_demo_something_happens(hours: int) -> None:
    now = NOW + timedelta(hours=hours)
    archive = Archive()
    world = demo_world(now=now, archive=archive)
    broadcasts = [channel for channel in world.channels.values() if not channel.group]
    assert min(m.date for c in broadcasts for m in c.messages.values() if not m.service) < now - timedelta(days=5)
    tellings = [
        (message.date, channel)
        for channel in broadcasts
        for message in channel.messages.values()
        if message.story and not message.forward
        if (story := archive.get(message.story)) and story.kind == "comet"
    ]
    told = sorted(tellings, key=lambda telling: telling[0])
    assert len({channel.id for _, channel in told}) >= 9
    assert len(told) >= 15
    assert told[0][0] >= now - EVENT_HOURS
    assert told[0][1].topic == "science"


def test_events_happen_only_where_they_are_asked_for() -> None:
    archive = Archive()
    rng = Random(3)
    kinds = {new_story(rng, topic, n, 1, NOW).kind for n in range(60) for topic in TOPICS}
    assert kinds == {kind for kind, plot in plots().items() if not plot.event}
    demo_world(now=NOW, archive=archive, edition=1)
    assert "comet" not in {story.kind for story in archive.newest(10_000)}


def test_sparse_ids_are_one_sequence_over_all_channels() -> None:
    dense, sparse = (build_world(seed=3, channels=8, posts=40, now=NOW, ids=ids) for ids in Ids)
    told = [message for channel in sparse.channels.values() for message in (*channel.messages, *channel.deleted)]
    assert len(told) == len(set(told))  # no id is used twice in the world
    assert min(told) > 10_000
    for channel in sparse.channels.values():
        texts = [message.text for message in channel.messages.values()]
        assert texts == [message.text for message in dense.channels[channel.id].messages.values()]
        assert list(channel.messages) == sorted(channel.messages)
        assert sparse.next_id(channel) == max(told) + 1
