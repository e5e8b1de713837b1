"""`tga backup` and `tga restore`: all of it comes back, and what cannot be restored is refused in one line."""

from __future__ import annotations

import asyncio
import json
import tarfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from threading import Event
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
from rich.console import Console
from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.backup.archive import ArchiveReader
from telegram_assistant.backup.saving import restore
from telegram_assistant.cli.session import opened
from telegram_assistant.config import Settings
from telegram_assistant.stores.postgres.accounts import TelegramAccounts
from telegram_assistant.stores.postgres.copying import columns_of, last_numbers
from telegram_assistant.stores.postgres.database import open_database, raw_transaction
from telegram_assistant.stores.postgres.migrate import known_revisions, migrate
from telegram_assistant.stores.sealed import Sealer
from telegram_assistant.terminal import Steps
from tests.integration.schema import read_schema
from tests.integration.search.archive import Archive
from tests.integration.stages.desk import FOOTBALL, WEATHER
from tests.integration.test_tenants import NO_HOSTS, PRIVATE_TO_THE_SYSTEM, World, add_channel, add_tenants_rows

pytestmark = pytest.mark.integration

Tga = Any  # of conftest.py, which cannot be imported
Printed = Any  # the same

KEY = "of the machine that burnt down"
SESSION = "1BVtsOK4Bu"
FILES = {"photo.jpg": b"\xff\xd8 a picture", "deep/er/file.bin": bytes(range(256)) * 5000, "пост.txt": "слово".encode()}


async def fill(database: AsyncEngine) -> None:
    """A row in every table there is."""
    world, ann = World(await read_schema(database)), frozenset({"ann"})
    async with database.begin() as connection:
        world.ids["ann"] = await world.add(connection, "tenants", ann, name='Анна\t\\N "quoted"\n\'')
        world.users["ann"] = await world.add(connection, "users", ann, tenant_id=world.ids["ann"])
        await add_channel(world, connection, "private of ann", world.ids["ann"], ann)
        await add_tenants_rows(world, connection, "ann")
        for name in PRIVATE_TO_THE_SYSTEM:
            await world.add(connection, name, NO_HOSTS)
    await TelegramAccounts(database, Sealer(KEY)).add(telegram_user_id=42, name="reader", session=SESSION)


async def contents(url: str) -> tuple[dict[str, list[str]], dict[str, int]]:
    """Every row of every table as text, and how far the numbers went."""
    database = open_database(url)
    try:
        tables = (await read_schema(database)).tables
        async with database.connect() as connection:
            rows = {
                name: sorted(str(tuple(row)) for row in await connection.execute(select(table)))
                for name, table in tables.items()
            }
        async with raw_transaction(database) as raw:
            return rows, await last_numbers(raw)
    finally:
        await database.dispose()


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


def read(path: Path) -> bytes:
    return path.read_bytes()


def write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def put_files(home: Path) -> None:
    for name, content in FILES.items():
        path = home / "media" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (home / "media" / "incoming").mkdir()
    (home / "media" / "incoming" / "half").write_bytes(b"of a file")
    (home / "keys").mkdir(mode=0o700, exist_ok=True)
    for name in ("session.key", "postgres.password"):
        (home / "keys" / name).write_text(KEY, encoding="ascii")
        (home / "keys" / name).chmod(0o600)


@pytest.fixture
async def saved(tga: Tga, database: AsyncEngine, environment: dict[str, str], tmp_path: Path) -> Path:
    """A backup of a database with something in every table, and of a few files."""
    await fill(database)
    put_files(Path(environment["TGA_DATA_DIR"]))
    path = tmp_path / "tga.tar"
    printed = await tga("backup", str(path))
    assert printed.code == 0, printed.out
    tables = (await read_schema(database)).tables
    assert f"of {len(tables)} tables, {len(FILES)} files" in printed.words
    assert "1 posts" in printed.words
    return path


@pytest.fixture
def elsewhere(environment: dict[str, str], empty_database_url: str, folder: Path) -> Callable[[], Path]:
    """From now on commands use an empty database and an empty folder."""

    def move() -> Path:
        home = folder / "elsewhere"
        environment.update({"DATABASE_URL": empty_database_url, "TGA_DATA_DIR": str(home)})
        return home

    return move


def refused(printed: Printed, *words: str) -> None:
    assert printed.code == 1
    assert "\n" not in printed.out.strip()
    for word in words:
        assert word in printed.out


def with_manifest(path: Path, change: Callable[[dict[str, object]], None]) -> Path:
    """The same backup with another manifest."""
    target = path.with_name("changed.tar")
    with tarfile.open(path) as old, tarfile.open(target, "w") as new:
        for member in old.getmembers():
            content = old.extractfile(member)
            assert content is not None
            body = content.read()
            if member.name == "manifest.json":
                manifest = json.loads(body)
                change(manifest)
                body = json.dumps(manifest).encode()
            member.size = len(body)
            new.addfile(member, BytesIO(body))
    return target


async def test_a_round_trip(
    tga: Tga, saved: Path, elsewhere: Callable[[], Path], database_url: str, empty_database_url: str
) -> None:
    before = await contents(database_url)
    assert all(before[0].values()), "a table without a row proves nothing"
    home = elsewhere()
    printed = await tga("restore", str(saved))
    assert printed.code == 0, printed.out
    assert "Next: tga reindex" in printed.words
    assert await contents(empty_database_url) == before
    for name, content in FILES.items():
        assert sha256((home / "media" / name).read_bytes()).digest() == sha256(content).digest()
    assert not (home / "media" / "incoming").exists()
    key = home / "keys" / "session.key"
    assert mode_of(key) == 0o600
    assert not (home / "keys" / "postgres.password").exists()
    database = open_database(empty_database_url)
    try:
        accounts = TelegramAccounts(database, Sealer(key.read_text(encoding="ascii")))
        assert [accounts.session(account) for account in await accounts.all() if account.name == "reader"] == [SESSION]
    finally:
        await database.dispose()


async def test_the_file_is_private_and_is_not_overwritten(tga: Tga, saved: Path) -> None:
    assert mode_of(saved) == 0o600
    assert [path.name for path in list(saved.parent.iterdir())] == [saved.name], "no draft stays"
    content = read(saved)
    refused(await tga("backup", str(saved)), "exists already: choose another name")
    assert read(saved) == content
    refused(await tga("backup", str(saved.parent / "nowhere" / "tga.tar")), "Cannot write", "No such file")


async def test_a_snapshot_while_others_write(
    tga: Tga, database: AsyncEngine, elsewhere: Callable[[], Path], tmp_path: Path, empty_database_url: str
) -> None:
    """A user that is in the backup has its tenant there, whenever both were added."""
    enough = asyncio.Event()

    async def write() -> int:
        written = 0
        while not enough.is_set():
            tenant = uuid4()
            async with database.begin() as connection:
                values = {"id": tenant, "name": tenant.hex}
                await connection.execute(text("INSERT INTO tenants (id, name) VALUES (:id, :name)"), values)
                statement = "INSERT INTO users (tenant_id, name, role) VALUES (:id, :name, 'member')"
                await connection.execute(text(statement), values)
            written += 1
        return written

    writing = asyncio.ensure_future(write())
    printed = await tga("backup", str(tmp_path / "tga.tar"))
    enough.set()
    assert await writing > 0
    assert printed.code == 0, printed.out
    elsewhere()
    printed = await tga("restore", str(tmp_path / "tga.tar"))
    assert printed.code == 0, printed.out
    rows, _ = await contents(empty_database_url)
    assert len(rows["users"]) == len(rows["tenants"])


async def test_an_s3_is_not_included(tga: Tga, environment: dict[str, str], tmp_path: Path) -> None:
    environment["MEDIA_URL"] = "s3://bucket/media"
    printed = await tga("backup", str(tmp_path / "tga.tar"))
    assert "Files are in s3://bucket/media and not in the backup" in printed.words


async def test_a_damaged_file_is_refused(tga: Tga, saved: Path, elsewhere: Callable[[], Path]) -> None:
    home = elsewhere()
    with tarfile.open(saved) as archive:
        place = archive.getmember("media/deep/er/file.bin").offset_data + 1000
    whole = read(saved)
    write(saved, whole[:place] + b"!" + whole[place + 1 :])
    refused(await tga("restore", str(saved)), "tga.tar is damaged: media/deep/er/file.bin is not what was saved")
    write(saved, whole[:place])
    refused(await tga("restore", str(saved)), "tga.tar")
    write(saved, b"not a tar")
    refused(await tga("restore", str(saved)), "is damaged, or no backup of ours")
    refused(await tga("restore", str(saved.with_name("missing.tar"))), "Cannot read", "No such file")
    assert not home.exists(), "nothing was touched"


async def test_names_that_lead_elsewhere_are_refused(tga: Tga, saved: Path, elsewhere: Callable[[], Path]) -> None:
    elsewhere()

    def lead_elsewhere(manifest: dict[str, object]) -> None:
        manifest["members"] = {"media/../../etc/cron": {"size": 1, "sha256": ""}}

    refused(await tga("restore", str(with_manifest(saved, lead_elsewhere))), "is no backup of ours")


@pytest.mark.parametrize("change", [{"format": 2}, {"schema": "9999"}], ids=["format", "schema"])
async def test_a_newer_version_is_refused(
    tga: Tga, saved: Path, elsewhere: Callable[[], Path], change: dict[str, object]
) -> None:
    home = elsewhere()
    newer = with_manifest(saved, lambda manifest: manifest.update({"version": "7.0.0", **change}))
    refused(await tga("restore", str(newer)), "was made by a newer version (7.0.0")
    assert not home.exists()


async def test_a_place_that_is_not_empty_is_refused(
    tga: Tga, saved: Path, elsewhere: Callable[[], Path], environment: dict[str, str], database_url: str
) -> None:
    refused(await tga("restore", str(saved)), "is there already: restore into an empty data folder")
    home = elsewhere()
    before = await contents(database_url)
    empty, environment["DATABASE_URL"] = environment["DATABASE_URL"], database_url
    refused(await tga("restore", str(saved)), "The database is not empty (there are ")
    assert await contents(database_url) == before
    assert not (home / "media").exists()
    environment["DATABASE_URL"] = empty
    assert (await tga("restore", str(saved))).code == 0


@pytest.mark.parametrize("age", [0, 1], ids=["of this version", "older"])
async def test_the_schema_of_a_newer_version_is_refused(
    tga: Tga, saved: Path, elsewhere: Callable[[], Path], empty_database_url: str, age: int
) -> None:
    """Where this version would run, after a way back: the database is empty, and not of ours."""
    home = elsewhere()
    assert (await tga("migrate")).code == 0
    connection = await asyncpg.connect(empty_database_url)
    await connection.execute("UPDATE alembic_version SET version_num = '9999'")
    older = with_manifest(saved, lambda manifest: manifest.update({"schema": known_revisions()[age]}))
    line = "The database has the schema of a newer version (9999): restore with that, or into a new database"
    refused(await tga("restore", str(older)), line)
    assert await connection.fetchval("SELECT version_num FROM alembic_version") == "9999"
    await connection.close()
    assert not (home / "media").exists()


async def test_a_demo_does_not_mix_with_the_real_thing(tga: Tga, saved: Path, elsewhere: Callable[[], Path]) -> None:
    elsewhere()
    demo = with_manifest(saved, lambda manifest: manifest.update({"demo": True}))
    refused(await tga("restore", str(demo)), "is of a demo: unset TELEGRAM_API_ID")


async def test_what_fails_half_way_leaves_the_place_empty(
    tga: Tga, saved: Path, elsewhere: Callable[[], Path], empty_database_url: str
) -> None:
    home = elsewhere()

    def promise_more(manifest: dict[str, object]) -> None:
        tables = manifest["tables"]
        assert isinstance(tables, dict)
        tables["users"]["rows"] += 1

    refused(await tga("restore", str(with_manifest(saved, promise_more))), "users has 2 rows instead of 3")
    assert not [path for path in (home / "media").rglob("*") if path.is_file()]
    assert not (home / "keys" / "session.key").exists()
    assert (await tga("restore", str(saved))).code == 0
    assert len((await contents(empty_database_url))[0]["users"]) == 2


class Interrupted(ArchiveReader):
    """Stops after the first file until the test says `go`."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.first, self.go = asyncio.Event(), Event()
        self._loop = asyncio.get_running_loop()

    def extract(self, name: str, target: Path) -> None:
        super().extract(name, target)
        self._loop.call_soon_threadsafe(self.first.set)
        self.go.wait(60)


async def test_whoever_interrupts_it_finds_the_place_empty(
    saved: Path, elsewhere: Callable[[], Path], environment: dict[str, str]
) -> None:
    """Ctrl-C cancels the task, and cannot cancel the thread that writes files."""
    home = elsewhere()
    threads = ThreadPoolExecutor()
    asyncio.get_running_loop().set_default_executor(threads)
    settings = Settings.model_validate({name.lower(): value for name, value in environment.items()})
    archive = Interrupted(saved)
    with archive:
        async with opened(settings, Steps(Console(quiet=True))) as runtime:
            restoring = asyncio.ensure_future(restore(runtime, archive))
            await archive.first.wait()
            restoring.cancel()
            await asyncio.wait([restoring], timeout=0.5)  # who tidies up too early is done by then
            archive.go.set()
            await asyncio.wait([restoring])
            assert restoring.cancelled()
        threads.shutdown(wait=True)
    assert [path for part in ("keys", "media") for path in (home / part).rglob("*") if path.is_file()] == []


async def test_a_backup_of_an_older_version_is_brought_up_to_date(
    tga: Tga, saved: Path, elsewhere: Callable[[], Path], database_url: str, empty_database_url: str
) -> None:
    """Its tables are filled as they were then, and migrated."""
    older = known_revisions()[1]
    old = open_database(empty_database_url)
    await migrate(old, revision=older)
    connection = await asyncpg.connect(empty_database_url)
    then = await columns_of(connection)
    await connection.close()
    await old.dispose()
    await drop_columns_since(database_url, then)
    path = saved.with_name("older.tar")
    assert (await tga("backup", str(path))).code == 0
    elsewhere()

    def as_then(manifest: dict[str, object]) -> None:
        tables = manifest["tables"]
        assert isinstance(tables, dict)
        manifest["schema"] = older
        manifest["tables"] = {name: table for name, table in tables.items() if name in then}
        manifest["sequences"] = {}

    printed = await tga("restore", str(with_manifest(path, as_then)))
    assert printed.code == 0, printed.out
    rows, _ = await contents(empty_database_url)
    assert set(rows) >= set(then)
    assert rows["posts"]


async def drop_columns_since(url: str, then: dict[str, list[str]]) -> None:
    """Tables that were there then lose the columns that they did not have; a backup says what it finds."""
    connection = await asyncpg.connect(url)
    for table, columns in (await columns_of(connection)).items():
        for column in set(columns) - set(then.get(table, columns)):
            await connection.execute(f'ALTER TABLE {table} DROP COLUMN "{column}"')
    await connection.close()


async def test_migrate_brings_the_schema(tga: Tga, elsewhere: Callable[[], Path], empty_database_url: str) -> None:
    elsewhere()
    printed = await tga("migrate")
    assert printed.words == f"The schema is {known_revisions()[0]}."
    connection = await asyncpg.connect(empty_database_url)
    assert await connection.fetchval("SELECT version_num FROM alembic_version") == known_revisions()[0]
    await connection.close()


async def test_searches_find_the_same_after_restore_and_reindex(
    tga: Tga, archive: Archive, elsewhere: Callable[[], Path], tmp_path: Path
) -> None:
    """By words and by meaning: the indexes are not in the backup, and come back from it."""
    for number, words in enumerate((WEATHER, FOOTBALL, "Биржа открылась ростом: акции банков подорожали."), 1):
        await archive.post(number, words)
    reindexed = await tga("reindex")
    assert reindexed.words == "3 posts are in the indexes."
    question = "спартак победил в футбол"
    before = found_by(await tga("search", question, "--json"))
    assert before
    assert (await tga("backup", str(tmp_path / "tga.tar"))).code == 0
    elsewhere()
    assert (await tga("restore", str(tmp_path / "tga.tar"))).code == 0
    assert (await tga("reindex")).words == reindexed.words
    after = found_by(await tga("search", question, "--json"))
    assert list(after) == list(before)
    assert after == pytest.approx(before, abs=1e-4)


def found_by(printed: Printed) -> dict[str, float]:
    """In their order."""
    answer = json.loads(printed.out)
    assert not answer["without_meaning"]
    return {hit["post_id"]: hit["score"] for hit in answer["hits"]}
