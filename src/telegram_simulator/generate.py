"""Worlds from a seed: the same seed, size and moment give the same world, byte for byte."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import exp
from random import Random
from statistics import NormalDist

from telegram_simulator.archive import Archive
from telegram_simulator.attention import grow_to
from telegram_simulator.clock import Clock
from telegram_simulator.desk import Wire
from telegram_simulator.model import Channel, Ids, Message, Service, User
from telegram_simulator.newsroom import Newsroom
from telegram_simulator.phrasebook import phrasebook, plots
from telegram_simulator.tempers import LIVES, times
from telegram_simulator.texts import LINK_HOST, pick
from telegram_simulator.voices import TOPICS, voice_of
from telegram_simulator.world import World

TEMPERS = (
    "night_quiet",
    "bursty",
    "round_the_clock",
    "steady",
    "weekday",
    "dead",
    "bursty",
    "night_quiet",
    "weekday",
    "steady",
)  # fmt: skip
PASSWORD = "correct horse battery"  # noqa: S105 - the second reader's 2FA password, for tests of the login
COMMENTERS = 24
GROUP_EVERY = 4  # one channel of so many has a discussion group
DEAD_FOR = 8  # a dead channel's time began so many times earlier than the others'


EVENT_HOURS = timedelta(hours=9)  # since an event began, up to now
EVENT_SHARE = 0.9  # of the channels tell of it, and come back to it later

DEMO_SEED = 12
DEMO_EDITION = 2  # of the world below; a change there needs a new one, so that older demos stay as they were
DEMO_MESSAGES = 55  # of a channel
DEMO = (
    ("Сводка дня", "svodka_dnya", "ru", "news", "round_the_clock"),
    ("Тихий код", "tikhiy_kod", "ru", "tech", "night_quiet"),
    ("Биржа без нервов", "birzha_bez_nervov", "ru", "markets", "steady"),
    ("Второй тайм", "vtoroy_taim", "ru", "sport", "night_quiet"),
    ("Кино и чай", "kino_i_chai", "ru", "culture", "steady"),
    ("Город сегодня", "gorod_segodnya", "ru", "city", "night_quiet"),
    ("Наука без воды", "nauka_bez_vody", "ru", "science", "steady"),
    ("Регион на связи", "region_na_svyazi", "ru", "news", "round_the_clock"),
    ("Quiet Code", "quiet_code_daily", "en", "tech", "steady"),
    ("Calm Exchange", "calm_exchange", "en", "markets", "round_the_clock"),
    ("City Today", "city_today_news", "en", "city", "steady"),
    ("Field Diary", "field_diary", "en", "science", "night_quiet"),
)


@dataclass(slots=True, frozen=True)
class Plan:
    """One channel to be made."""

    title: str
    username: str | None
    language: str
    topic: str
    temper: str
    messages: float  # that should be left in it, on average
    discussed: bool = False
    private: bool = False
    joined: bool = True


def build_world(
    *,
    seed: int,
    channels: int,
    posts: int,
    now: datetime | None = None,
    days: float = 14,
    link_host: str = LINK_HOST,
    readers: int = 1,
    private_share: float = 0.1,
    spread: float = 1.2,
    largest_document: int = 64 * 1024,
    clock: Callable[[], datetime] | None = None,
    ids: Ids = Ids.DENSE,
) -> World:
    """A world of so many channels with `posts` messages each on average, and the last `days` of their history.

    `spread` says how much channels differ in size: 0 makes them alike, 1.2 lets rates span two orders of
    magnitude in a small world and more in a large one. Discussion groups and their comments come on top. `ids` says
    how messages are numbered.
    """
    plans = _plans(seed, channels, posts, private_share, spread)
    wire = Wire(link_host=link_host, largest_document=largest_document)
    return realise(plans, seed=seed, now=now, days=days, readers=readers, wire=wire, clock=clock, ids=ids)


def demo_world(
    *,
    now: datetime | None = None,
    link_host: str = LINK_HOST,
    readers: int = 1,
    clock: Callable[[], datetime] | None = None,
    archive: Archive | None = None,
    edition: int = DEMO_EDITION,
    messages: int = DEMO_MESSAGES,
    ids: Ids = Ids.DENSE,
) -> World:
    """The world to show around: twelve channels, two thirds of them Russian, six days of posts up to now.

    Something happens on its last day. In the first edition nothing did, and the channels were three days old.
    """
    days, event = (3, None) if edition == 1 else (6, "comet")
    plans = [
        Plan(title, username, language, topic, temper, float(messages), discussed=topic in ("tech", "city"))
        for title, username, language, topic, temper in DEMO
    ]
    wire = Wire(link_host=link_host, archive=archive)
    return realise(
        plans, seed=DEMO_SEED, wire=wire, now=now, days=days, readers=readers, clock=clock, event=event, ids=ids
    )


def realise(
    plans: list[Plan],
    *,
    seed: int,
    wire: Wire,
    now: datetime | None = None,
    days: float = 14,
    readers: int = 1,
    clock: Callable[[], datetime] | None = None,
    event: str | None = None,
    ids: Ids = Ids.DENSE,
) -> World:
    """Make the planned channels and let their history happen up to now; `event`: a kind of story for its last day."""
    moment = (now or datetime.now(UTC)).replace(microsecond=0)
    world = World(now=clock or Clock(moment), ids=ids)
    add_readers(world, readers)
    room = Newsroom(world, wire, commenters=add_commenters(world, seed))
    for index, plan in enumerate(plans):
        rng = Random(f"{seed}/channel/{index}")
        channel = _add_channel(world, plan, rng, moment - timedelta(days=days * DEAD_FOR * 1.5))
        _let_join(world, channel, plan, rng)
        dead = plan.temper == "dead"
        span = days * DEAD_FOR if dead else days
        voice = voice_of(channel)
        arrivals = plan.messages / voice.messages_per_arrival / (1.0 - voice.holes)
        rate = arrivals / (span * LIVES if dead else span)
        channel.rate = 0.0 if dead else rate
        start = moment - timedelta(days=span)
        room.open(channel, times(f"{seed}/{index}", plan.temper, rate, start, moment), f"{seed}/desk")
    if event is not None:
        _happen(room, event, seed, moment)
    room.run(moment)
    for channel in world.channels.values():
        voice = voice_of(channel)
        for message in channel.messages.values():
            if not channel.group:
                grow_to(world, channel, message, voice, moment)
    return world


def _happen(room: Newsroom, event: str, seed: int, moment: datetime) -> None:
    """Those who write about such things tell of it first."""
    rng = Random(f"{seed}/{event}")
    channels = [channel for channel in room.world.channels.values() if not channel.group]
    channels.sort(key=lambda channel: (channel.topic != plots()[event].topic, rng.random()))
    tellers = channels[: round(EVENT_SHARE * len(channels))]
    began = moment - EVENT_HOURS
    for number, channel in enumerate(tellers):
        at = began + EVENT_HOURS * ((number + rng.random()) / len(tellers)) ** 1.5
        again = at + (moment - at) * rng.uniform(0.3, 1.0)
        room.send(channel, event, at.replace(microsecond=0), f"{seed}/{event}")
        room.send(channel, event, again.replace(microsecond=0), f"{seed}/{event}/again")


def add_readers(world: World, readers: int) -> list[User]:
    """People with accounts to log in as; the second of them has a 2FA password."""
    return [
        world.add_user(
            User(
                id=100_000_001 + number,
                access_hash=7_000_000_001 + number,
                first_name=f"Reader {number + 1}",
                phone=f"7999000{number + 1:04}",
                username=f"reader{number + 1}",
                password=PASSWORD if number == 1 else None,
            )
        )
        for number in range(readers)
    ]


def add_commenters(world: World, seed: int) -> list[User]:
    """People who write in discussion groups."""
    rng = Random(f"{seed}/people")
    names = [*phrasebook("ru").phrases["people"], *phrasebook("en").phrases["people"]]
    return [
        world.add_user(User(id=200_000_001 + number, access_hash=rng.getrandbits(62), first_name=names[number]))
        for number in range(min(COMMENTERS, len(names)))
    ]


def _plans(seed: int, channels: int, posts: int, private_share: float, spread: float) -> list[Plan]:
    rng = Random(f"{seed}/plans")
    # Evenly spaced quantiles of a log-normal: even a small world has its large and its tiny channels.
    weights = [exp(spread * NormalDist().inv_cdf((rank + 0.5) / channels)) for rank in range(channels)]
    rng.shuffle(weights)
    mean = sum(weights) / channels if channels else 1.0
    private = round(private_share * channels)
    if private_share and channels >= 5:
        private = max(2, private)  # one that the readers are in, and one that they are not
    plans = []
    for index, weight in enumerate(weights):
        language = "en" if index % 3 == 2 else "ru"
        topic = pick(rng, TOPICS)
        hidden = channels - index if index >= channels - private else 0
        plans.append(
            Plan(
                title=pick(rng, phrasebook(language).names[topic]),
                username=None if hidden else f"{topic}_{language}_{seed % 1000}_{index + 1}",
                language=language,
                topic=topic,
                temper=TEMPERS[index % len(TEMPERS)],
                messages=max(2.0, posts * weight / mean),
                discussed=index % GROUP_EVERY == 1,
                private=hidden > 0,
                joined=hidden % 2 == 0,
            )
        )
    return plans


def _add_channel(world: World, plan: Plan, rng: Random, created: datetime) -> Channel:
    channel = world.add_channel(_channel(world, plan, rng, created))
    world.post(channel, Message(world.next_id(channel), created, service=Service("created", plan.title)))
    if plan.discussed:
        group = _channel(world, plan, rng, created)
        group.group, group.subscribers = True, channel.subscribers // 20
        group.title += " — чат" if plan.language == "ru" else " — chat"
        group.username = f"{plan.username}_chat" if plan.username else None
        group.linked_id, channel.linked_id = channel.id, group.id
        world.add_channel(group)
        world.post(group, Message(world.next_id(group), created, service=Service("created", group.title)))
    return channel


def _channel(world: World, plan: Plan, rng: Random, created: datetime) -> Channel:
    channel_id = 1_000_000_000 + rng.randrange(1_000_000_000)
    while channel_id in world.channels:
        channel_id += 1
    return Channel(
        id=channel_id,
        access_hash=rng.getrandbits(62),
        title=plan.title,
        username=plan.username,
        created=created,
        about=" ".join(f"#{tag}" for tag in phrasebook(plan.language).hashtags[plan.topic]),
        private=plan.private,
        invite=f"{rng.getrandbits(64):016x}" if plan.private else None,
        subscribers=int(300 * 3000 ** rng.random()),
        temper=plan.temper,
        language=plan.language,
        topic=plan.topic,
    )


def _let_join(world: World, channel: Channel, plan: Plan, rng: Random) -> None:
    """Readers are in most channels; who is in a channel is in its group too."""
    for user in world.users.values():
        if user.phone is not None and plan.joined and (plan.private or rng.random() < 0.85):
            channel.members.add(user.id)
            if channel.linked_id is not None:
                world.channels[channel.linked_id].members.add(user.id)
