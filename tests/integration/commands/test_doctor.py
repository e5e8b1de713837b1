"""`tga doctor` finds planted troubles, says what to do, and fails only for what is broken."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.cli import accounts
from telegram_assistant.config import Settings
from telegram_assistant.doctor import Level
from telegram_assistant.doctor.examination import disk, port, trained_data
from telegram_assistant.doctor.servers import GENERATIONS, look_at_database, model_of_folder, owner
from telegram_assistant.domain.access import SYSTEM_TENANT
from telegram_assistant.embedded.folder import DataFolder, FolderLock
from telegram_assistant.embedded.process import free_port
from telegram_assistant.index.vectors import Model
from telegram_assistant.stores.postgres.accounts import TelegramAccounts
from telegram_assistant.stores.postgres.migrate import known_revisions
from telegram_assistant.stores.sealed import Sealer
from telegram_assistant.wiring.models import place_of_indexes
from telegram_simulator.preview import PreviewPages
from telegram_simulator.server import Simulator
from telegram_simulator.world import World
from tests.proxies import MTProxy, Socks5Proxy

pytestmark = pytest.mark.integration

Tga = Any  # of conftest.py, which cannot be imported

KEY = "of this machine"
OURS = Model("ours", 4)


@pytest.fixture
async def telegram() -> AsyncIterator[Simulator]:
    async with Simulator(World()) as simulator:
        yield simulator


@pytest.fixture
def home(environment: dict[str, str], telegram: Simulator) -> Path:
    """A data folder as tga makes it, with free ports, and a Telegram that answers."""
    environment["TELEGRAM_SERVER"] = telegram.address
    environment["INGEST_HEALTH_PORT"], environment["API_PORT"] = str(free_port()), str(free_port())
    path = Path(environment["TGA_DATA_DIR"])
    (path / "keys").mkdir(mode=0o700, parents=True)
    path.chmod(0o711)
    key = path / "keys" / "session.key"
    key.write_text(KEY, encoding="ascii")
    key.chmod(0o600)
    return path


@pytest.fixture
async def account(database: AsyncEngine) -> TelegramAccounts:
    accounts = TelegramAccounts(database, Sealer(KEY))
    await accounts.add(telegram_user_id=42, name="reader", session="1BV")
    return accounts


async def report(tga: Tga) -> tuple[int, dict[str, dict[str, Any]]]:
    printed = await tga("doctor", "--json")
    return printed.code, {finding["name"]: finding for finding in json.loads(printed.out)}


async def found(tga: Tga, name: str, level: str, *words: str) -> None:
    """That, and nothing else is broken."""
    code, findings = await report(tga)
    finding = findings[name]
    assert finding["level"] == level, findings
    for word in words:
        assert word in finding["what"] + finding["todo"]
    assert finding["todo"], "whoever reads this wants to know what to do"
    broken = [other for other, one in findings.items() if one["level"] == "fail"]
    assert broken == ([name] if level == "fail" else [])
    assert code == (1 if level == "fail" else 0)


@pytest.mark.usefixtures("home", "account")
async def test_all_is_well(tga: Tga) -> None:
    code, findings = await report(tga)
    assert code == 0
    assert not [name for name, finding in findings.items() if finding["level"] == "fail"]
    for name in ("data folder", "keys", "disk", "PostgreSQL", "schema", "clock", "Telegram accounts", "Redis", "media"):
        assert findings[name]["level"] == "ok", findings[name]
    printed = await tga("doctor")
    assert f"ok schema: {known_revisions()[0]}" in printed.words


@pytest.mark.usefixtures("account")
async def test_keys_that_others_can_read(tga: Tga, home: Path) -> None:
    key = home / "keys" / "session.key"
    key.chmod(0o644)
    await found(tga, "keys", "fail", "others may read", f"chmod 600 {key}")


@pytest.mark.usefixtures("account")
async def test_a_folder_that_everybody_can_write(tga: Tga, home: Path) -> None:
    (home / "keys" / "..").chmod(0o777)
    await found(tga, "data folder", "fail", "everybody may write", "chmod 711")


async def test_a_file_where_the_folder_should_be(tga: Tga, environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="ascii")
    environment["TGA_DATA_DIR"] = str(tmp_path / "file")
    code, found = await report(tga)
    assert code == 1
    assert found["data folder"]["what"] == f"{tmp_path / 'file'} is not a folder"
    assert found["Redis"]["level"] == "ok", "and the rest is looked at"


@pytest.mark.usefixtures("home", "account")
async def test_a_full_disk(tga: Tga, environment: dict[str, str]) -> None:
    environment["TGA_MIN_FREE_DISK_MB"] = str(10**9)
    await found(tga, "disk", "fail", "MB are needed", "TGA_DATA_DIR")


def test_a_disk_that_fills(tmp_path: Path) -> None:
    assert disk(tmp_path / "not" / "yet", 0).level is Level.OK
    assert disk(tmp_path, 10**9).level is Level.FAIL


@pytest.fixture
def stranger() -> Iterator[int]:
    """A port that another program has."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        yield server.getsockname()[1]


def test_a_port_of_somebody_else(stranger: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("telegram_assistant.doctor.examination.ASK_SECONDS", 0.2)
    taken = port("pages", "127.0.0.1", stranger, "API_PORT")
    assert taken.level is Level.FAIL
    assert "set API_PORT to another" in taken.todo
    assert port("pages", "127.0.0.1", free_port(), "API_PORT").level is Level.OK


@pytest.mark.usefixtures("home")
async def test_postgres_that_does_not_answer(tga: Tga, environment: dict[str, str]) -> None:
    environment["DATABASE_URL"] = f"postgresql://me:s3cret@127.0.0.1:{free_port()}/tga"
    await found(tga, "PostgreSQL", "fail", "no PostgreSQL answers there", "correct DATABASE_URL")
    assert "s3cret" not in (await tga("doctor")).out


@pytest.mark.usefixtures("home", "account")
async def test_redis_that_does_not_answer(tga: Tga, environment: dict[str, str]) -> None:
    environment["REDIS_URL"] = f"redis://127.0.0.1:{free_port()}/0"
    await found(tga, "Redis", "fail", "Cannot use REDIS_URL", "start it")


@pytest.mark.usefixtures("home", "account")
async def test_redis_that_throws_events_away(tga: Tga, redis: Redis) -> None:
    before = await redis.config_get("maxmemory*")
    try:
        await redis.config_set("maxmemory", "100mb")
        await redis.config_set("maxmemory-policy", "allkeys-lru")
        await found(tga, "Redis", "fail", "throws keys away (allkeys-lru)", "noeviction")
    finally:
        await redis.config_set("maxmemory-policy", before["maxmemory-policy"] or "noeviction")
        await redis.config_set("maxmemory", before["maxmemory"] or 0)


@pytest.mark.usefixtures("home", "account")
@pytest.mark.parametrize(
    "schema, runs_from, level, word",
    [
        ("9999", "9998", "fail", "of a newer version"),
        ("9999", known_revisions()[0], "warn", "this one runs on it"),
        (known_revisions()[1], known_revisions()[1], "warn", "tga migrate"),
    ],
)
async def test_another_schema(
    tga: Tga, database: AsyncEngine, *, schema: str, runs_from: str, level: str, word: str
) -> None:
    statement = text("UPDATE alembic_version SET version_num = :schema, runs_from = :runs_from")
    async with database.begin() as connection:
        await connection.execute(statement, {"schema": schema, "runs_from": runs_from})
    await found(tga, "schema", level, word)


@pytest.mark.parametrize("seconds, level", [(0, Level.OK), (5, Level.WARN), (-3600, Level.FAIL)])
async def test_a_wrong_clock(database_url: str, tmp_path: Path, seconds: int, level: Level) -> None:
    settings = Settings(tga_data_dir=tmp_path)
    findings = await look_at_database(database_url, settings, lambda: datetime.now(UTC) + timedelta(seconds=seconds))
    clock = next(finding for finding in findings if finding.name == "clock")
    assert clock.level is level
    assert ("NTP" in clock.todo) == (level is not Level.OK)


@pytest.mark.usefixtures("home")
async def test_no_account(tga: Tga) -> None:
    await found(tga, "Telegram accounts", "fail", "there are none", "tga login")


@pytest.mark.usefixtures("home")
async def test_accounts_that_are_lost(tga: Tga, database: AsyncEngine, account: TelegramAccounts) -> None:
    async with database.begin() as connection:
        await connection.execute(text("UPDATE telegram_accounts SET status = 'revoked'"))
    await found(tga, "Telegram accounts", "fail", "reader is revoked", "tga login")
    await account.add(telegram_user_id=43, name="second", session="1BV")
    await found(tga, "Telegram accounts", "warn", "1 can read; reader is revoked", "tga accounts remove")


@pytest.mark.usefixtures("account")
async def test_another_key_than_the_sessions(tga: Tga, home: Path) -> None:
    key = home / "keys" / "session.key"
    key.write_text("of another machine", encoding="ascii")
    await found(tga, "Telegram accounts", "fail", "encrypted with another key", "bring the key back")
    key.unlink()
    await found(tga, "Telegram accounts", "fail", "session.key is gone", "bring the key back")


def test_no_data_for_reading_pictures(tmp_path: Path) -> None:
    assert trained_data(tmp_path, ()).level is Level.WARN
    (tmp_path / "rus.traineddata").touch()
    assert "has no eng" in trained_data(tmp_path, ()).what
    (tmp_path / "eng.traineddata").touch()
    assert trained_data(tmp_path, ()).level is Level.OK


@pytest.mark.usefixtures("home", "account")
async def test_servers_of_indexes_that_do_not_answer(tga: Tga, environment: dict[str, str]) -> None:
    environment["QDRANT_URL"] = f"http://127.0.0.1:{free_port()}"
    await found(tga, "Qdrant", "fail", "correct QDRANT_URL")
    del environment["QDRANT_URL"]
    environment["NEO4J_URL"] = f"bolt://127.0.0.1:{free_port()}"
    await found(tga, "Neo4j", "fail", "correct NEO4J_URL")


@pytest.mark.usefixtures("account")
async def test_media_that_cannot_be_written(tga: Tga, home: Path) -> None:
    (home / "media").touch()
    await found(tga, "media", "fail", "MEDIA_URL")


@pytest.mark.usefixtures("home", "account")
async def test_a_start_that_is_under_way(tga: Tga, home: Path) -> None:
    data = DataFolder(home)
    data.open()
    try:
        await found(tga, "tga", "warn", "is just starting", "again in a moment")
    finally:
        data.close()


def test_an_index_that_a_stranger_holds(tmp_path: Path) -> None:
    assert owner("graph", tmp_path, running=False).level is Level.WARN
    held = FolderLock(tmp_path, "graph")
    held.take()
    assert "find that process" in owner("graph", tmp_path, running=False).todo
    assert owner("graph", tmp_path, running=True).level is Level.OK
    held.release()
    assert owner("graph", tmp_path, running=False).level is Level.OK


@pytest.mark.usefixtures("account")
async def test_n14_indexes_that_are_not_those_that_postgres_knows(tga: Tga, home: Path, database: AsyncEngine) -> None:
    place = place_of_indexes(Settings(), home)
    state = {"vectors": {SYSTEM_TENANT: "ours"}, "graph": "ours too", "place": place}
    async with database.begin() as connection:
        statement = text("INSERT INTO upkeep (name, state) VALUES ('indexes', CAST(:state AS jsonb))")
        await connection.execute(statement, {"state": json.dumps(state)})
    await found(tga, "indexes", "warn", "vectors", "graph", "rebuilds")
    folder = home / "vectors" / SYSTEM_TENANT
    folder.mkdir(parents=True)
    (folder / GENERATIONS).write_text(json.dumps({"mark": "ours", "generations": []}), encoding="utf-8")
    (home / "graph" / "graph").mkdir(parents=True)
    assert (await report(tga))[1]["indexes"]["level"] == "ok"
    async with database.begin() as connection:
        rebuilt = {"why": "vectors vanished", "examined": 1204, "of": 11000}
        statement = text("INSERT INTO upkeep (name, state) VALUES ('index_pass', CAST(:state AS jsonb))")
        await connection.execute(statement, {"state": json.dumps(rebuilt)})
    await found(tga, "indexes", "warn", "vectors vanished", "1,204 of 11,000")


def test_vectors_of_another_model(tmp_path: Path) -> None:
    assert model_of_folder(tmp_path, OURS).level is Level.OK
    path = tmp_path / "tenant" / "generations.json"
    path.parent.mkdir()
    listed = [{"model": "of yesterday", "size": 4, "folder": "a", "current": True}]
    path.write_text(json.dumps({"generations": listed}), encoding="utf-8")
    other = model_of_folder(tmp_path, OURS)
    assert other.level is Level.WARN
    assert "of yesterday" in other.what
    path.write_text("{", encoding="utf-8")
    assert model_of_folder(tmp_path, OURS).level is Level.FAIL


@pytest.mark.usefixtures("home")
async def test_settings_that_are_wrong(tga: Tga, environment: dict[str, str]) -> None:
    environment["API_PORT"] = "pages"
    await found(tga, "settings", "fail", "API_PORT='pages'", "env.example")


@pytest.mark.usefixtures("home")
async def test_which_way_leads_to_telegram(
    tga: Tga,
    environment: dict[str, str],
    account: TelegramAccounts,
    telegram: Simulator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Directly, through which proxy, or not at all; never with a secret."""
    _, host, port_ = telegram.address.split(":")
    assert (await report(tga))[1]["way to Telegram"]["what"] == "directly"
    (reader,) = await account.all()
    async with (
        Socks5Proxy(login=("ann", "s3cret")) as socks,
        MTProxy((host, int(port_)), key=b"0123456789abcdef", domain="example.org") as mtproxy,
        PreviewPages(World()) as pages,
    ):
        environment |= {"PROXY_URL": socks.url, "PREVIEW_HOSTS": "http://previews.test"}
        socks.leads["previews.test", 80] = ("127.0.0.1", int(pages.address.rpartition(":")[2]))
        assert "goes through mtproxy://127.0.0.1" in (await tga("accounts", "proxy", reader.id, mtproxy.url)).words
        code, findings = await report(tga)
        assert code == 0, findings
        assert findings["way to Telegram"]["what"] == f"through socks5://127.0.0.1:{socks.port}"
        assert findings["way to Telegram of reader"]["what"] == f"through mtproxy://127.0.0.1:{mtproxy.port}"
        assert findings["way to previews"]["what"] == f"through socks5://127.0.0.1:{socks.port}"
        assert socks.asked == [(host, int(port_)), ("previews.test", 80)]
        monkeypatch.setattr(accounts.console, "width", 200)
        listed = await tga("accounts", "list")
        assert reader.id in listed.out
        assert f"mtproxy://127.0.0.1:{mtproxy.port}" in listed.out
        environment["PROXY_URL"] = socks.url.replace("s3cret", "0ther-s3cret")
        code, findings = await report(tga)
        assert code == 1
        assert "directly Telegram does answer" in findings["way to Telegram"]["todo"]
        for printed in (listed, await tga("doctor")):
            assert "s3cret" not in printed.out
            assert mtproxy.secret not in printed.out
    (sealed,) = [one.proxy for one in await account.all()]
    assert sealed is not None
    assert b"secret" not in sealed
    assert "directly from now on" in (await tga("accounts", "proxy", reader.id, "direct")).words
    refused = await tga("accounts", "proxy", reader.id, "ftp://s3cret@a:1")
    assert refused.code
    assert "socks5://" in refused.out
    assert "s3cret" not in refused.out


@pytest.mark.usefixtures("home", "account")
async def test_no_way_leads_to_telegram(tga: Tga, environment: dict[str, str]) -> None:
    environment["TELEGRAM_SERVER"] = f"2:127.0.0.1:{free_port()}"
    await found(tga, "way to Telegram", "fail", "Telegram does not answer", "TELEGRAM_PROXY")
    environment["TELEGRAM_PROXY"] = f"http://127.0.0.1:{free_port()}"
    await found(tga, "way to Telegram", "fail", "did not connect us", "directly Telegram does not answer either")
