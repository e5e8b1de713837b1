"""A small world that never rests, people who search it all the time, and whether the tables equal it in the end."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import httpx
from msgspec import structs

from telegram_assistant.domain.ledger import Coverage, LedgerState
from telegram_assistant.domain.post import post_id
from telegram_assistant.domain.query import Mark
from telegram_assistant.language.documents import Source
from telegram_assistant.stages.index_entry import source_of
from telegram_simulator.model import Channel
from tests.e2e.pipeline.conftest import Town, until
from tests.pipeline_state import due, on_the_way
from tests.upgrade.installation import Installation
from tests.upgrade.versions import Version

LIVE_PAUSE, SEARCH_PAUSE = 0.25, 0.25
CITIES = ("Казань", "Омск", "Псков", "Тула", "Чита", "Якутск", "Пермь", "Сочи")
KEEPER = "Смотритель зажёг маяк на мысе Анива: суда снова видят сушу за двадцать миль."
KEEPER_WORD = "маяк"  # only in this post, which nobody changes


@dataclass
class Life:
    """Posts, edits and deletions, one after the other."""

    town: Town
    channels: list[Channel]
    choice: random.Random
    done: Counter[str] = field(default_factory=Counter)

    async def run(self) -> None:
        while True:
            self.step()
            await asyncio.sleep(LIVE_PAUSE)

    def step(self) -> None:
        channel = self.choice.choice(self.channels)
        changeable = list(channel.messages)[-15:]
        what = self.choice.choices(("post", "edit", "delete"), (6, 3, 1))[0] if len(changeable) > 3 else "post"
        self.done[what] += 1
        if what == "post":
            self.town.say(channel, self.words(channel))
        elif what == "edit":
            self.town.world.edit(channel, self.choice.choice(changeable), self.words(channel))
        else:
            self.town.world.delete(channel, [self.choice.choice(changeable)])

    def words(self, channel: Channel) -> str:
        number, city = sum(self.done.values()), self.choice.choice(CITIES)
        return f"{channel.title}, выпуск {number}: {city} принимает гостей, мост откроют через {number} дней."


@dataclass
class Searches:
    """The same question again and again to every API process, as a balancer spreads them; what went wrong is kept."""

    wanted: UUID
    key: str = ""
    doors: dict[str, str] = field(default_factory=dict)  # by name of the version
    answered: Counter[str] = field(default_factory=Counter)
    rounds: int = 0
    wrong: list[str] = field(default_factory=list)

    async def open(self, house: Installation, version: Version, role: str = "api") -> None:
        """Start a process with the API, and ask it too from now on."""
        await house.begin(version, role)
        self.key = self.key or await house.make_key()
        self.doors[version.name] = house.address(version, role)

    async def ask_all(self) -> None:
        for name, address in list(self.doors.items()):
            found = await self.ask(address, KEEPER_WORD)
            self.answered[name] += 1
            if found[:1] != [self.wanted]:
                self.wrong.append(f"{name}: {found}")

    async def run(self) -> None:
        while True:
            await self.ask_all()
            self.rounds += 1
            await asyncio.sleep(SEARCH_PAUSE)

    async def close(self, house: Installation, version: Version, role: str = "api") -> None:
        """As a balancer does it: no further questions first, then the process is stopped."""
        del self.doors[version.name]
        rounds = self.rounds

        async def over() -> bool:
            return self.rounds > rounds

        await until(over, "the last question is answered")
        await house.end(version, role)

    async def ask(self, address: str, words: str) -> Any:
        """Ids of posts; what else came, where that was something else."""
        headers = {"Authorization": f"Bearer {self.key}"}
        async with httpx.AsyncClient(base_url=address, headers=headers, timeout=120, trust_env=False) as client:
            try:
                answer = await client.get("/api/v1/search", params={"q": words})
            except httpx.HTTPError as exc:
                return repr(exc)
        if answer.status_code != 200:
            return f"{answer.status_code} {answer.text}"
        return [UUID(item["post"]["id"]) for item in answer.json()["items"]]


@dataclass
class Store:
    """What the tables say, beside the truth of the world."""

    house: Installation
    town: Town

    @property
    def channels(self) -> list[Channel]:
        return list(self.town.world.channels.values())

    async def caught_up(self, seconds: float = 300.0) -> None:
        """Wait until every post that is there now was indexed, or is gone. The world may go on."""
        now = {post_id(channel.id, number) for channel in self.channels for number in channel.messages}

        async def nothing() -> bool:
            there = {post_id(channel.id, number) for channel in self.channels for number in channel.messages}
            indexed = await self.house.rows("SELECT post_id FROM search_documents")
            return now & there <= {row.post_id for row in indexed}

        await until(nothing, "everything up to now is indexed", seconds)

    async def whole(self, seconds: float = 300.0) -> None:
        """Wait until everything that is there now is captured and indexed. The world has to rest meanwhile."""
        found: dict[str, Any] = {"nothing": "yet"}

        async def same() -> bool:
            nonlocal found
            found = await self.differences()
            return not found

        try:
            await until(same, "the tables equal the world", seconds)
        except AssertionError as exc:
            raise AssertionError(f"{exc}: {found} {self.house.troubles()}") from exc

    async def differences(self) -> dict[str, Any]:
        """By what is wrong. Empty: all is well."""
        for channel in self.channels:
            if found := _wrong(await self._channel(channel)):
                return {channel.title: found}
        way = await on_the_way(self.house.database, self.house.redis)
        letters = len(await self.house.rows("SELECT 1 FROM dead_letters"))
        return _wrong({"on the way": way, "dead letters": letters}) or await self._index()

    async def _channel(self, channel: Channel) -> dict[str, Any]:
        rows = await self.house.rows(
            "SELECT message_id, text, deleted_at FROM posts WHERE channel_id = :id", id=channel.id
        )
        stored = {row.message_id: row.text for row in rows if row.deleted_at is None}
        truth = {number: message.text for number, message in channel.messages.items()}
        return {
            "missing": sorted(truth.keys() - stored.keys()),
            "not deleted": sorted(stored.keys() - truth.keys()),
            "old words": sorted(number for number in truth.keys() & stored.keys() if truth[number] != stored[number]),
            "never existed": sorted(row.message_id for row in rows if row.message_id > channel.newest_id),
            "unknown ids": await self._unknown(channel),
            "doubled versions": await self._doubled(channel),
        }

    async def _unknown(self, channel: Channel) -> int | str:
        """How many ids, by columns that every version has: the store of this one reads those of its own schema."""
        rows = await self.house.rows(
            "SELECT newest_id, coalesce(requested_from, newest_id + 1) AS requested_from, coverage::text AS coverage,"
            " captured FROM channels WHERE id = :id",
            id=channel.id,
        )
        if not rows:
            return "all"
        row = rows[0]
        return LedgerState(row.newest_id, row.requested_from, Coverage.parse(row.coverage), row.captured).unknown

    async def _doubled(self, channel: Channel) -> list[int]:
        """Posts with more former versions than the world has seen, or the same one twice."""
        rows = await self.house.rows(
            "SELECT p.message_id, array_agg(v.text) AS texts FROM posts p JOIN post_versions v ON v.post_id = p.id"
            " WHERE p.channel_id = :id GROUP BY 1",
            id=channel.id,
        )
        every = {**channel.messages, **channel.deleted}
        return [row.message_id for row in rows if Counter(row.texts) - Counter(every[row.message_id].versions)]

    async def _index(self) -> dict[str, Any]:
        """The full-text index, which lies in PostgreSQL: each post, and made of its present words by any version."""
        wanted = {post: _digests(source_of(entry)) for post, entry in (await due(self.house.database)).items()}
        rows = await self.house.rows("SELECT post_id, digest FROM search_documents WHERE NOT deleted")
        held = {row.post_id: row.digest for row in rows}
        return _wrong(
            {
                "not indexed": list(wanted.keys() - held.keys()),
                "not removed": list(held.keys() - wanted.keys()),
                "of other words": [post for post in wanted.keys() & held.keys() if held[post] not in wanted[post]],
            }
        )


def _digests(source: Source) -> set[str]:
    """Of a document that this version makes, or the first one, which knew no advertising."""
    former = structs.replace(source, marks=tuple(mark for mark in source.marks if mark != Mark.AD))
    return {source.digest, former.digest_by(1)}


def _wrong(found: dict[str, Any]) -> dict[str, Any]:
    return {what: value for what, value in found.items() if value}


@asynccontextmanager
async def going_on(*works: Life | Searches) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(work.run()) for work in works]
    try:
        yield
        assert not [task for task in tasks if task.done()], "nobody gave up"
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def open_channels(town: Town, house: Installation, count: int, posts: int = 0) -> list[Channel]:
    """New ones, with posts that are there already, to be watched from now on."""
    made = [town.open(f"channel_{len(town.world.channels) + 1}") for _ in range(count)]
    for channel in made:
        for number in range(posts):
            town.say(channel, f"{channel.title} начинает день номер {number + 1}: погода ясная, ветер слабый.")
    await house.watch(*made)
    return made
