"""Exports become posts: nothing doubled, nothing lost, and what is newer stays (issue 17)."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.access import SYSTEM_TENANT, SYSTEM_USER
from telegram_assistant.domain.ledger import Coverage
from telegram_assistant.domain.media_rules import MediaRules, decide
from telegram_assistant.domain.post import Counters, Media, MediaKind, Post
from telegram_assistant.domain.text import Entity, EntityKind
from telegram_assistant.errors import Skip
from telegram_assistant.ingest.importing import Importer, Outcome, Report, Wish, decide_exported
from telegram_assistant.ingest.saver import Reading, Saver
from telegram_assistant.source.export import Export
from telegram_assistant.source.export_files import BadExport
from telegram_assistant.stores.media import MediaStore
from telegram_assistant.stores.postgres.channels import Channels
from telegram_assistant.stores.postgres.imports import ImportedChannels
from telegram_assistant.stores.postgres.media import MediaQueue
from tests.exports import CHANNEL, at, chat, edited, html_message, message, write_html, write_json

pytestmark = pytest.mark.integration

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
STATE = (
    "SELECT c.newest_id, c.cursor_id, c.coverage::text, c.captured, c.last_post_at, (SELECT count(*) FROM outbox),"
    " (SELECT count(*) FROM post_versions), (SELECT count(*) FROM post_counters), (SELECT array_agg((p.message_id,"
    " p.text, p.version, p.edited_at, p.deleted_at, p.views, p.details, p.posted_at)::text ORDER BY p.message_id)"
    " FROM posts p), (SELECT array_agg((m.post_id, m.status, m.reason, m.sha256)::text ORDER BY m.post_id, position)"
    " FROM post_media m) FROM channels c"
)


class World:
    """A database, an importer, and an account's saver."""

    def __init__(self, database: AsyncEngine, folder: Path) -> None:
        self.database = database
        self.now = NOW
        self.store = MediaStore.open(folder / "media")
        self.folder = folder
        self._count = 0

    def clock(self) -> datetime:
        return self.now

    def saver(self, retention: str = "keep") -> Saver:
        """As an account saves."""
        return Saver(
            self.database, clock=self.clock, decide_media=partial(decide, rules=MediaRules()), retention=retention
        )

    async def run(self, *paths: Path, retention: str = "keep", **wishes: Any) -> Outcome:
        rules = MediaRules()
        saver = Saver(
            self.database,
            clock=self.clock,
            decide_media=lambda media: decide_exported(media, rules, self.now),
            retention=retention,
        )
        importer = Importer(
            Channels(self.database),
            ImportedChannels(self.database),
            saver,
            MediaQueue(self.database),
            self.store,
            rules=rules,
            clock=self.clock,
        )
        wish = Wish(**{"tenant_id": UUID(SYSTEM_TENANT), "user_id": UUID(SYSTEM_USER), **wishes})
        with Export.open(list(paths), latest=importer.latest) as export:
            return await importer.run(export, wish)

    async def json(self, messages: Sequence[dict[str, Any]], **wishes: Any) -> Report:
        self._count += 1
        outcome = await self.run(write_json(self.folder / str(self._count), chat(messages)), **wishes)
        return outcome.reports[0]

    async def rows(self, statement: str) -> list[Any]:
        async with self.database.connect() as connection:
            return [tuple(row) for row in await connection.execute(text(statement))]

    async def watched(self) -> None:
        """The channel is read by an account."""
        async with self.database.begin() as connection:
            await connection.execute(
                text(
                    "INSERT INTO channels (id, title, username, access_hash, requested_from)"
                    " VALUES (:id, 'News', 'news', '{\"a\": 1}', 1)"
                ),
                {"id": CHANNEL},
            )

    async def read(self, *posts: Post, upto: int, saver: Saver | None = None) -> Any:
        """A page that an account reads from the beginning."""
        proven = Coverage.of_spans((1, upto + 1))
        reading = Reading(channel_id=CHANNEL, posts=posts, proven=proven, cursor_id=upto, asked_at=self.now)
        return await (saver or self.saver()).save(reading)


@pytest.fixture
def world(database: AsyncEngine, tmp_path: Path) -> World:
    return World(database, tmp_path)


def post(number: int, words: str = "", **fields: Any) -> Post:
    """As an account tells it."""
    return Post(channel_id=CHANNEL, message_id=number, posted_at=at(number), text=words or f"post {number}", **fields)


def counts(report: Report) -> tuple[int, int, int]:
    return report.new, report.edited, report.same


async def test_an_export_is_stored_and_proves_only_what_it_holds(world: World) -> None:
    report = await world.json([message(3), message(5), {"id": 6, "type": "unsupported"}, message(9)])
    assert (report.channel_id, *counts(report), report.unusual) == (CHANNEL, 3, 0, 0, 1)
    ledger = await Channels(world.database).ledger(CHANNEL)
    assert (ledger.captured, ledger.empty, ledger.unknown) == (3, 0, 4)
    assert str(ledger.coverage) == "{[3,4),[5,6),[9,10)}"
    assert await world.rows("SELECT message_id, text, posted_at FROM posts ORDER BY message_id") == [
        (number, f"post {number}", at(number)) for number in (3, 5, 9)
    ]
    assert await world.rows("SELECT event, cardinality(ids) FROM outbox") == [("posts.parsed", 3)]
    assert await Channels(world.database).plan(NOW) == 0  # no account can read it: it is not visited in vain


async def test_the_same_export_again_changes_nothing(world: World) -> None:
    await world.json([message(1), message(2, "", photo="photos/1.jpg")])
    before = await world.rows(STATE)
    world.now += timedelta(days=1)
    assert counts(await world.json([message(1), message(2, "", photo="photos/1.jpg")])) == (0, 0, 2)
    assert await world.rows(STATE) == before


async def test_counts_and_file_names_that_differ_are_no_edits(world: World) -> None:
    await world.json([message(1, "", photo="photos/photo_1.jpg", reactions=[{"count": 1, "emoji": "❤"}])])
    before = await world.rows(STATE)
    again = message(1, "", photo="photos/photo_7.jpg", reactions=[{"count": 9, "emoji": "❤"}], photo_file_size=5)
    assert counts(await world.json([again])) == (0, 0, 1)
    assert await world.rows(STATE) == before


async def test_a_newer_export_adds_and_edits_and_an_older_one_does_not(world: World) -> None:
    old, new = [message(1, "first"), message(2)], [edited(1, "better", at(50)), message(2), message(60)]
    await world.json(old)
    assert counts(await world.json(new)) == (1, 1, 1)
    told = await world.rows("SELECT message_id, text, version, edited_at FROM posts ORDER BY message_id")
    assert told[0] == (1, "better", 2, at(50))
    assert await world.rows("SELECT version, text FROM post_versions") == [(1, "first")]
    before = await world.rows(STATE)
    assert counts(await world.json(old)) == (0, 0, 2)
    assert await world.rows(STATE) == before


async def test_html_after_json_changes_nothing_and_a_newer_one_edits(world: World) -> None:
    await world.json([message(number) for number in range(1, 6)])
    before = await world.rows(STATE)
    same = write_html(world.folder / "h", [[html_message(number) for number in range(1, 6)]])
    [report] = (await world.run(same)).reports  # by its title
    assert (report.channel_id, *counts(report)) == (CHANNEL, 0, 0, 5)
    assert await world.rows(STATE) == before
    newer = write_html(world.folder / "n", [[html_message(1, "changed"), html_message(9)]])
    assert counts((await world.run(newer)).reports[0]) == (1, 1, 0)
    older = write_html(world.folder / "o", [[html_message(1, "as it was"), html_message(4)]])
    assert counts((await world.run(older)).reports[0]) == (0, 0, 2)
    assert await world.rows("SELECT text, version FROM posts WHERE message_id = 1") == [("changed", 2)]


async def test_an_account_goes_on_where_the_export_ended(world: World) -> None:
    """Nothing is doubled, what reads the same is no edit, and files, albums and counts become exact."""
    pictures = world.folder / "1" / "photos"
    pictures.mkdir(parents=True)
    (pictures / "1.jpg").write_bytes(b"picture")
    await world.json([message(1), message(2, "both", photo="photos/1.jpg"), message(3, "was")])
    [(kept,)] = await world.rows("SELECT sha256 FROM post_media")
    file = Media(kind=MediaKind.PHOTO, file_id="photo:7", mime="image/jpeg", size=7)
    bold = (Entity(EntityKind.BOLD, 0, 4),)
    world.now += timedelta(days=1)
    read = (
        post(1, counters=Counters(views=10)),
        post(2, "both", media=(file,), entities=bold, grouped_id=5),
        post(3, "is now", edited_at=at(70)),
        post(4),
    )
    saved = await world.read(*read, upto=4)
    assert [len(some) for some in (saved.new, saved.edited, saved.taken_over)] == [1, 1, 1]
    assert await world.rows("SELECT message_id, version, views, grouped_id FROM posts ORDER BY message_id") == [
        (1, 1, 10, None),
        (2, 1, None, 5),
        (3, 2, None, None),
        (4, 1, None, None),
    ]
    assert await world.rows("SELECT post_id FROM post_versions") == [(post(3).id,)]
    assert await world.rows("SELECT file_id, status, sha256 FROM post_media") == [("photo:7", "stored", kept)]
    assert await world.rows("SELECT items_count FROM media_groups") == [(1,)]
    world.now += timedelta(days=1)
    assert not (await world.read(*read, upto=4)).changed  # and it is settled
    assert counts(await world.json([message(1), message(2, "both", photo="x.jpg"), message(3, "was")])) == (0, 0, 3)


async def test_an_old_export_changes_nothing_of_what_an_account_captured(world: World) -> None:
    await world.watched()
    await world.read(post(1, "newer", edited_at=at(99)), post(2), post(3), upto=9)
    world.now += timedelta(hours=1)
    await world.saver().delete(CHANNEL, [3])
    before = await world.rows(STATE)
    told = [edited(1, "older", at(50)), message(2, "differs"), message(3)]
    assert counts(await world.json(told)) == (0, 0, 3)
    assert await world.rows(STATE) == before


@pytest.mark.parametrize("retention,kept", [("keep", 1), ("mirror", 0), ("redact", 0)])
async def test_what_was_deleted_before_we_read_is_kept_as_deleted(world: World, retention: str, kept: int) -> None:
    await world.watched()
    await world.read(post(1), upto=9)
    report = await world.json([message(1), message(5)], retention=retention)
    assert (report.new, report.past) == (kept, kept)
    gone = await world.rows("SELECT message_id FROM posts WHERE deleted_at IS NOT NULL")
    assert gone == [(5,)] * kept
    assert await world.rows("SELECT sum(cardinality(ids)) FROM outbox") == [(1,)]  # it is told to no stage


async def test_a_channel_that_is_read_keeps_its_newest_id_and_cursor(world: World) -> None:
    """A forged id must not make a channel look two billion posts long."""
    await world.watched()
    await world.read(post(1), upto=1)
    await world.json([message(1), message(2**31 - 1, when=at(5))])
    assert await world.rows("SELECT newest_id, cursor_id, requested_from FROM channels") == [(1, 1, 1)]


async def test_files_are_stored_once_and_later_exports_bring_what_was_missing(world: World) -> None:
    told = [
        message(1, "", photo="photos/1.jpg"),
        message(2, "", photo="photos/2.jpg"),
        message(3, "", file="../../etc/passwd", mime_type="text/plain"),
        message(4, "", file="video_files/1.mp4", media_type="video_file"),
    ]
    for number, names in ((1, ["photos/1.jpg"]), (2, ["photos/1.jpg", "photos/2.jpg", "video_files/1.mp4"])):
        for name in names:
            path = world.folder / str(number) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"same bytes")
    first = await world.json(told)
    assert (first.files, sum(first.files_refused.values())) == (1, 3)
    second = await world.json(told)
    assert (*counts(second), second.files) == (0, 0, 4, 1)
    digest = hashlib.sha256(b"same bytes").hexdigest()
    stored = await world.rows(
        "SELECT message_id, status, sha256 FROM post_media JOIN posts ON id = post_id ORDER BY message_id"
    )
    assert stored == [(1, "stored", digest), (2, "stored", digest), (3, "skipped", None), (4, "skipped", None)]
    assert await world.rows("SELECT sha256, size FROM media_objects") == [(digest, 10)]
    before = await world.rows(STATE)
    shutil.copytree(world.folder / "2", world.folder / "3")
    assert (await world.json(told)).files == 0
    assert await world.rows(STATE) == before


async def test_a_dry_run_tells_and_changes_nothing(world: World) -> None:
    assert counts(await world.json([message(1), message(2)], only_look=True)) == (2, 0, 0)
    assert await world.rows("SELECT id FROM channels") == []
    await world.json([message(1)])
    before = await world.rows(STATE)
    assert counts(await world.json([edited(1, "x", at(9)), message(9)], only_look=True)) == (1, 1, 0)
    assert await world.rows(STATE) == before


async def test_private_chats_are_refused_unless_asked_for(world: World) -> None:
    person = {**chat([message(1, "dear", from_id="user5")]), "type": "personal_chat", "id": CHANNEL, "name": "Bob"}
    path = write_json(world.folder / "p", person)
    with pytest.raises(BadExport, match="private"):
        await world.run(path)
    assert await world.rows("SELECT id FROM channels") == []
    [report] = (await world.run(path, private=True)).reports
    assert report.channel_id != CHANNEL  # persons and channels may have the same number
    assert await world.rows("SELECT tenant_id, is_group FROM channels") == [(UUID(SYSTEM_TENANT), True)]
    account = {"chats": {"list": [person, chat([message(1)])]}}
    outcome = await world.run(write_json(world.folder / "a", account))
    assert ([one.channel_id for one in outcome.reports], outcome.left_out) == ([CHANNEL], ["Bob"])


async def test_html_has_to_be_told_its_channel(world: World) -> None:
    folder = write_html(world.folder / "h", [[html_message(1)]])
    with pytest.raises(BadExport, match="--channel"):
        await world.run(folder)
    assert counts((await world.run(folder, channel_id=CHANNEL)).reports[0]) == (1, 0, 0)
    with pytest.raises(BadExport, match="names 5"):
        await world.json([message(1)], channel_id=5)


async def test_who_may_write_where(world: World) -> None:
    """A public channel is shared by all tenants, so that one of them must not put posts into it."""
    other = UUID("0b9c0b5e-2f0d-5c3a-8d7e-51f3c6a4e922")
    async with world.database.begin() as connection:
        await connection.execute(text("INSERT INTO tenants (id, name) VALUES (:id, 'other')"), {"id": other})
    with pytest.raises(BadExport, match="operator"):
        await world.json([message(1)], tenant_id=other, shared=False)
    await world.json([message(1)])
    with pytest.raises(BadExport, match="operator"):
        await world.json([message(2)], tenant_id=other, shared=False)
    async with world.database.begin() as connection:
        await connection.execute(text("UPDATE channels SET tenant_id = :id"), {"id": other})
    with pytest.raises(BadExport, match="another tenant"):
        await world.json([message(2)])
    async with world.database.begin() as connection:
        await connection.execute(text("UPDATE channels SET tenant_id = NULL, status = 'removed'"))
    with pytest.raises(BadExport, match="removed"):
        await world.json([message(2)])


def _spoiled(whole: bytes, rng: Random) -> bytes:
    """Cut off, bytes changed, or a part taken out or doubled."""
    start = rng.randrange(len(whole))
    stop = min(len(whole), start + rng.randrange(1, 80))
    match rng.randrange(4):
        case 0:
            return whole[:start]
        case 1:
            return whole[:start] + rng.randbytes(stop - start) + whole[stop:]
        case 2:
            return whole[:start] + whole[stop:]
        case _:
            return whole[:stop] + whole[start:]


@pytest.mark.parametrize("form", ["json", "html"])
async def test_spoiled_exports_never_lose_what_is_known(world: World, form: str) -> None:
    """Each is refused as a whole, or adds: of a channel that was captured nothing goes, and the ledger stays true."""
    await world.watched()
    await world.read(*(post(number) for number in range(1, 9)), upto=9)
    if form == "json":
        path = write_json(world.folder / "s", chat([message(number) for number in range(1, 12)]))
    else:
        path = write_html(world.folder / "s", [[html_message(number) for number in range(1, 12)]]) / "messages.html"
    whole, rng = path.read_bytes(), Random(17)
    fixed = "SELECT newest_id, cursor_id, requested_from, title, status FROM channels WHERE id = 1878264527"
    before = await world.rows(fixed)
    refused = 0
    for _ in range(120):
        path.write_bytes(_spoiled(whole, rng))
        try:
            await world.run(path, channel_id=CHANNEL)
        except (BadExport, Skip):
            refused += 1
    assert 30 < refused < 120  # both happened
    assert await world.rows(fixed) == before
    kept = await world.rows("SELECT text, version, deleted_at FROM posts WHERE message_id < 9 ORDER BY message_id")
    assert kept == [(f"post {number}", 1, None) for number in range(1, 9)]
    captured = await world.rows("SELECT captured FROM channels WHERE id = 1878264527")
    assert captured == await world.rows("SELECT count(*) FROM posts WHERE channel_id = 1878264527")
    [(coverage,)] = await world.rows("SELECT coverage::text FROM channels WHERE id = 1878264527")
    stored = await world.rows("SELECT message_id FROM posts WHERE channel_id = 1878264527")
    assert all(number in Coverage.parse(coverage) for (number,) in stored)
