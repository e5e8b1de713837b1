"""A tenant leaves, and nothing of it stays in any store; what others have stays as it was."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest
from redis.asyncio import Redis
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant import names
from telegram_assistant.access.erase import Eraser
from telegram_assistant.bus.retry_queue import RetryQueue, Waiting
from telegram_assistant.bus.streams import FIELD
from telegram_assistant.domain.access import SYSTEM_TENANT
from telegram_assistant.errors import Fatal
from telegram_assistant.index.edge_vectors import EdgeVectors
from telegram_assistant.index.graph import PostNode
from telegram_assistant.index.ladybug_graph import LadybugGraph
from telegram_assistant.index.vectors import Model, Point
from telegram_assistant.stores.media import MediaStore
from telegram_assistant.wiring.runtime import utc_now
from tests.integration.schema import read_schema
from tests.integration.test_tenants import PRIVATE_TO_THE_SYSTEM, World, add_channel, add_tenants_rows

pytestmark = pytest.mark.integration

SYSTEM = UUID(SYSTEM_TENANT)
MODEL = Model("of a test", 4)
COUNTED_ANEW = {"model_results", "search_terms"}
CHANNELS = {
    "of both": {"ann", "bob"},
    "of ann": {"ann"},
    "of bob": {"bob"},
    "of nobody": set[str](),
    "private of ann": {"ann"},
    "private of bob": {"bob"},
}


class Disk(MediaStore):
    """The real store, on a disk that may be away."""

    away = False

    async def delete(self, key: str) -> None:
        if self.away:
            raise Fatal("the disk is away")
        await super().delete(key)


@dataclass
class Everything:
    """Two tenants in every store; ann is the one who leaves."""

    database: AsyncEngine
    redis: Redis
    folder: Path
    world: World
    posts: dict[str, UUID] = field(default_factory=dict)
    albums: dict[str, UUID] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.vectors = EdgeVectors(self.folder / "vectors")
        self.graph = LadybugGraph(self.folder / "graph")
        self.media = Disk.open(self.folder / "media")
        self.eraser = Eraser(
            self.database,
            self.redis,
            vectors=self.vectors,
            graph=self.graph,
            media=self.media,
            clock=utc_now,
        )

    @property
    def ann(self) -> UUID:
        return self.world.ids["ann"]

    def owner(self, title: str) -> UUID:
        """Whose index a channel's posts stand in."""
        return self.world.ids[title.rsplit(maxsplit=1)[-1]] if title.startswith("private") else SYSTEM

    async def run(self, statement: str, **values: Any) -> list[Any]:
        async with self.database.begin() as connection:
            result = await connection.execute(text(statement), values)
            return list(result) if result.returns_rows else []

    async def fill(self) -> None:
        async with self.database.begin() as connection:
            for name in ("ann", "bob"):
                seer = frozenset({name})
                self.world.ids[name] = await self.world.add(connection, "tenants", seer, name=name)
                of = {"tenant_id": self.world.ids[name]}
                self.world.users[name] = await self.world.add(connection, "users", seer, **of)
            for title, seers in CHANNELS.items():
                owner = self.world.ids[title.rsplit(maxsplit=1)[-1]] if title.startswith("private") else None
                await add_channel(self.world, connection, title, owner, frozenset(seers))
            for name in ("ann", "bob"):
                await add_tenants_rows(self.world, connection, name)
            for name in PRIVATE_TO_THE_SYSTEM:
                await self.world.add(connection, name, frozenset())
        for title, channel in self.world.channels.items():
            [(self.posts[title],)] = await self.run("SELECT id FROM posts WHERE channel_id = :id", id=channel)
            [(self.albums[title],)] = await self.run("SELECT id FROM media_groups WHERE channel_id = :id", id=channel)
        await self.fill_files()
        await self.fill_indexes()
        await self.fill_redis()

    async def store(self, content: bytes, tenant: UUID, *titles: str) -> str:
        """A file that posts of these channels have."""

        async def pieces() -> AsyncIterator[bytes]:
            yield content

        stored = await self.media.put(pieces(), tenant_id=tenant, extension="png")
        await self.run(
            "INSERT INTO media_objects (sha256, mime, size, storage_key) VALUES (:sha, 'image/png', 1, :key)",
            sha=stored.sha256,
            key=stored.key,
        )
        for title in titles:
            await self.run(
                "INSERT INTO post_media (post_id, position, kind, sha256, status)"
                " VALUES (:post, (SELECT count(*) + 2000000 FROM post_media), 'photo', :sha, 'stored')",
                post=self.posts[title],
                sha=stored.sha256,
            )
        return stored.key

    async def fill_files(self) -> None:
        self.own = await self.store(b"of ann alone", self.ann, "private of ann")
        self.public = await self.store(b"of a public channel that only ann watches", SYSTEM, "of ann")
        self.came_first = await self.store(b"of both, but ann had it first", self.ann, "private of ann", "of bob")
        self.shared = await self.store(b"of both", SYSTEM, "of ann", "of both")
        self.earlier = await self.store(b"of an earlier version", SYSTEM, "of ann")
        await self.run(
            "UPDATE post_versions SET media = jsonb_build_array(jsonb_build_object('sha256', CAST(:sha AS text)))"
            " WHERE post_id = :post",
            sha=sha256(b"of an earlier version").hexdigest(),
            post=self.posts["of bob"],
        )

    async def fill_indexes(self) -> None:
        for title, post in self.posts.items():
            owner, channel = self.owner(title), self.world.channels[title]
            posted = datetime(2026, 11, 1, tzinfo=UTC)
            await self.vectors.open(owner, MODEL)
            point = Point(post_id=post, vector=[1, 0, 0, 0], text_hash="x", channel_id=channel, posted_at=posted)
            await self.vectors.put(owner, MODEL, [point])
            node = PostNode(
                tenant_id=owner,
                post_id=post,
                channel_id=channel,
                channel_title=title,
                message_id=1,
                posted_at=posted,
                tags=("tag", f"tag {title}"),
            )
            await self.graph.put([node])
        for name in ("ann", "bob"):
            await self.graph.put_interests(self.world.ids[name], self.world.users[name], {"topic": 1.0})

    def event(self, title: str, **fields: Any) -> dict[str, Any]:
        whose = {"tenant_id": str(self.owner(title)), "post_id": str(self.posts[title])}
        return {**whose, "channel_id": self.world.channels[title], **fields}

    async def fill_redis(self) -> None:
        for name in ("ann", "bob"):
            tenant = self.world.ids[name]
            await self.redis.set(f"alerts:{tenant}", 1)
            await self.redis.set(names.rate_limit(f"user:{self.world.users[name]}"), 1)
        for title, channel in self.world.channels.items():
            for key in (names.parse_hwm(channel), names.backfill_job(channel, utc_now()), names.low_watermark(channel)):
                await self.redis.set(key, 1)
            await self.redis.hset(names.album_state(self.albums[title]), "album", "{}")
            await self.redis.zadd(names.ALBUM_DEADLINES, {str(self.albums[title]): 1})
        every = [self.event(title) for title in CHANNELS]
        deleted = {"tenant_id": SYSTEM_TENANT, "post_id": str(self.posts["of ann"])}
        for event, batch in (
            (names.POSTS_PARSED, every),
            (names.POSTS_TAGGED, [self.event("private of ann")]),
            (names.POSTS_TAGGED, [self.event("of bob")]),
            (names.POSTS_DELETED, [deleted]),
        ):
            await self.redis.xadd(names.stream(event), {FIELD: msgspec.json.encode(batch)})
        await self.redis.xadd(names.stream(names.POSTS_TAGGED), {FIELD: f"not JSON {self.ann}"})
        await self.redis.xadd(names.stream(names.POSTS_TAGGED), {FIELD: "not JSON"})
        room = RetryQueue(self.redis, names.TAGGING)
        async with self.redis.pipeline() as pipe:
            for title in CHANNELS:
                payload = msgspec.Raw(msgspec.json.encode(self.event(title)))
                room.put(pipe, Waiting(event=names.POSTS_PARSED, payload=payload, key=title), 1.0)
            await pipe.execute()

    async def in_redis(self) -> str:
        """Everything that is there, as one text."""
        found: list[Any] = []
        async for key in self.redis.scan_iter():
            kind = await self.redis.type(key)
            read: Callable[[Any], Awaitable[Any]] = {
                "string": self.redis.get,
                "hash": self.redis.hgetall,
                "zset": lambda name: self.redis.zrange(name, 0, -1),
                "stream": self.entries,
            }[str(kind)]
            found.append((key, await read(key)))
        return str(found)

    async def entries(self, stream: str) -> list[str]:
        """What the entries of a stream carry."""
        found: Any = await self.redis.xrange(stream)
        return [fields[FIELD] for _, fields in found]

    async def in_tables(self) -> str:
        found = []
        for table in self.world.schema.tables:
            found += await self.run(f"SELECT to_jsonb(t)::text FROM {table} t")  # noqa: S608 - names of our tables
        return str(found)


@pytest.fixture
async def everything(database: AsyncEngine, redis: Redis, folder: Path) -> AsyncIterator[Everything]:
    made = Everything(database, redis, folder, World(await read_schema(database)))
    await made.fill()
    yield made
    await made.vectors.close()
    await made.graph.close()


def gone(everything: Everything) -> list[str]:
    """Ids that nobody may find any more."""
    world = everything.world
    ids = [everything.ann, world.users["ann"]]
    ids += [everything.posts[title] for title in ("of ann", "private of ann")]
    ids += [everything.albums[title] for title in ("of ann", "private of ann")]
    return [str(one) for one in ids]


async def test_nothing_stays_in_postgres_and_nothing_else_goes(everything: Everything) -> None:
    before = await everything.in_tables()
    assert all(one in before for one in gone(everything)), "else this test proves nothing"
    erased = await everything.eraser.erase(everything.ann)
    assert (erased.users, erased.channels, erased.posts) == (1, 2, 2)
    after = await everything.in_tables()
    assert [one for one in gone(everything) if one in after] == []
    for table in everything.world.schema.sorted_tables:
        if table.name in COUNTED_ANEW:
            continue
        rows = {
            tuple(row)
            for row in await everything.run(
                f"SELECT {', '.join(table.primary_key.columns.keys())} FROM {table.name}"  # noqa: S608 - ours
            )
        }
        known = everything.world.seen_by[table.name]
        left = {key for key, seers in known.items() if seers != {"ann"}}
        if table.name == "subscriptions":
            assert len(rows) == 3, "of bob: both, his own, his private one"
        else:
            assert rows >= left, table.name
            assert not rows & (set(known) - left), table.name


async def test_what_is_kept_by_content_goes_as_far_as_it_may_be_its(everything: Everything) -> None:
    await everything.run("INSERT INTO model_results (key, data, created_at) VALUES ('old', 'x', '2000-01-01')")
    await everything.eraser.erase(everything.ann)
    assert await everything.run("SELECT key FROM model_results") == [("old",)]


async def test_nothing_stays_in_redis_and_nothing_else_goes(everything: Everything) -> None:
    before = await everything.in_redis()
    assert all(one in before for one in gone(everything))
    await everything.eraser.erase(everything.ann)
    after = await everything.in_redis()
    assert [one for one in gone(everything) if one in after] == []
    for title in ("of ann", "private of ann"):
        assert f":{everything.world.channels[title]}" not in after
    bob = everything.world.ids["bob"]
    assert await everything.redis.exists(f"alerts:{bob}")
    others = {str(everything.posts[title]) for title in CHANNELS if title not in ("of ann", "private of ann")}
    [batch] = await everything.entries(names.stream(names.POSTS_PARSED))
    assert {event["post_id"] for event in msgspec.json.decode(batch)} == others
    tagged = await everything.entries(names.stream(names.POSTS_TAGGED))
    assert len(tagged) == 2, "bob's, and what nobody can read"
    assert await RetryQueue(everything.redis, names.TAGGING).size() == 4
    assert await everything.redis.zcard(names.ALBUM_DEADLINES) == 4


async def test_nothing_stays_in_the_indexes_and_nothing_else_goes(everything: Everything) -> None:
    await everything.eraser.erase(everything.ann)
    assert await everything.vectors.current(everything.ann) is None
    assert not any((await everything.graph.counts(everything.ann)).values())
    assert not (everything.folder / "vectors" / str(everything.ann)).exists()
    found = {one.post_id for one in await everything.vectors.search(SYSTEM, [1, 0, 0, 0], limit=10)}
    assert found == {everything.posts[title] for title in ("of both", "of bob", "of nobody")}
    assert await everything.graph.node(SYSTEM, everything.posts["of ann"]) is None
    assert await everything.graph.node(SYSTEM, everything.posts["of both"]) is not None
    bob = everything.world.ids["bob"]
    assert await everything.vectors.current(bob) == MODEL
    assert await everything.graph.interests(bob, everything.world.users["bob"]) == {"topic": 1.0}


async def test_nothing_stays_in_the_media_store_and_nothing_else_goes(everything: Everything) -> None:
    erased = await everything.eraser.erase(everything.ann)
    assert erased.files == 2 + 2  # and the two that were made up without a file
    folder = everything.folder / "media"
    left = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    moved = everything.came_first.replace(str(everything.ann), SYSTEM_TENANT)
    assert left == {everything.shared, everything.earlier, moved}
    assert (folder / moved).read_bytes() == b"of both, but ann had it first"
    [(key,)] = await everything.run(
        "SELECT storage_key FROM media_objects WHERE sha256 = :sha",
        sha=sha256(b"of both, but ann had it first").hexdigest(),
    )
    assert key == moved


async def test_a_letter_or_an_account_elsewhere_does_not_give_it_away(everything: Everything) -> None:
    [(account,)] = await everything.run("SELECT id FROM telegram_accounts WHERE tenant_id = :ann", ann=everything.ann)
    hashes = msgspec.json.encode({str(account): 1, "another": 2}).decode()
    await everything.run(
        "UPDATE channels SET access_hash = CAST(:hashes AS jsonb) WHERE id = :id",
        hashes=hashes,
        id=everything.world.channels["of both"],
    )
    letter = (
        "INSERT INTO dead_letters (tenant_id, stage, stream, entry_id, payload, reason, attempts)"
        " VALUES (:system, 's', 's', :entry, CAST(:payload AS jsonb), 'r', 1)"
    )
    for payload in (f'"unreadable {everything.ann}"', msgspec.json.encode(everything.event("of ann")).decode(), '"x"'):
        await everything.run(letter, system=SYSTEM, entry=str(uuid4()), payload=payload)
    outbox = "INSERT INTO outbox (event, ids, trace_id, tenant_id) VALUES ('e', :ids, 't', :tenant)"
    await everything.run(outbox, ids=[uuid4()], tenant=everything.ann)
    await everything.run(outbox, ids=[everything.posts["of ann"]], tenant=None)
    await everything.run(outbox, ids=[everything.posts["of bob"]], tenant=None)
    await everything.eraser.erase(everything.ann)
    after = await everything.in_tables()
    assert str(account) not in after
    assert [one for one in gone(everything) if one in after] == []
    letters = await everything.run("SELECT payload FROM dead_letters WHERE tenant_id = :system", system=SYSTEM)
    assert letters == [("x",)]
    assert (everything.posts["of bob"],) in {tuple(row.ids) for row in await everything.run("SELECT ids FROM outbox")}
    [kept] = await everything.run("SELECT access_hash FROM channels WHERE title = 'of both'")
    assert kept.access_hash == {"another": 2}


async def test_the_log_says_that_it_happened_but_not_to_whom(everything: Everything) -> None:
    await everything.eraser.erase(everything.ann)
    [(details, target)] = await everything.run("SELECT details, target FROM audit_log WHERE action = 'tenant_erased'")
    assert details == {"channels": 2, "posts": 2, "files": 4}
    assert target == ""


async def test_after_an_interruption_it_goes_on(everything: Everything) -> None:
    """The store of files fails in the middle: nothing is lost track of, and the next try finishes."""
    everything.media.away = True
    with pytest.raises(Fatal, match="disk"):
        await everything.eraser.erase(everything.ann)
    everything.media.away = False
    await everything.eraser.erase(everything.ann)
    after = await everything.in_tables() + await everything.in_redis()
    assert [one for one in gone(everything) if one in after] == []
    assert not (everything.folder / "media" / everything.own).exists()
    folder = everything.folder / "media"
    left = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert left == {
        everything.shared,
        everything.earlier,
        everything.came_first.replace(str(everything.ann), SYSTEM_TENANT),
    }


async def test_while_another_process_has_the_indexes_nothing_is_touched(everything: Everything) -> None:
    before = await everything.in_tables()
    other = EdgeVectors(everything.folder / "vectors")
    eraser = Eraser(
        everything.database,
        everything.redis,
        vectors=other,
        graph=everything.graph,
        media=everything.media,
        clock=utc_now,
    )
    with pytest.raises(Fatal, match="stop it, then erase again"):
        await eraser.erase(everything.ann)
    await other.close()
    assert await everything.in_tables() == before


async def test_the_system_stays(everything: Everything) -> None:
    with pytest.raises(Fatal, match="cannot be erased"):
        await everything.eraser.erase(SYSTEM)
