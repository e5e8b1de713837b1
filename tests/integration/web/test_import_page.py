"""An export is sent on the page: streamed to the disk, imported as by the command, and reported on."""

from __future__ import annotations

import asyncio
import io
import json
import zipfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from fastapi import FastAPI
from redis.asyncio import Redis
from rich.console import Console
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.bus.supervisor import Supervisor
from telegram_assistant.config import Settings
from telegram_assistant.embedded.folder import DataFolder, Running
from telegram_assistant.health import Health
from telegram_assistant.http.guards import LONGEST_BODY
from telegram_assistant.http.web.pages.importing import KEYS
from telegram_assistant.i18n import LANGUAGES, load_texts
from telegram_assistant.services.import_desk import REASONS
from telegram_assistant.terminal import Steps
from telegram_assistant.wiring.importing import open_import_desk
from telegram_assistant.wiring.runtime import Runtime
from tests.exports import CHANNEL, chat, message, old

pytestmark = pytest.mark.integration

Town = Any  # of conftest.py, which cannot be imported
ClientOf = Any
HTMX = {"HX-Request": "true"}


def export(count: int, **fields: Any) -> bytes:
    return json.dumps(chat([message(number) for number in range(1, count + 1)], **fields)).encode()


def zipped(**files: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name.replace("__", "."), content)
    return made.getvalue()


async def emptied(folder: Path) -> bool:
    """What went wrong is shown a moment before the files are gone."""
    for _ in range(15_000):
        if not kept(folder):
            return True
        await asyncio.sleep(0.02)
    return False


def kept(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


class Sender:
    """Sends an export as upload.js does, and waits for what comes of it."""

    def __init__(self, page: httpx.AsyncClient) -> None:
        self.page = page
        self.token = uuid4().hex

    async def put(self, name: str, content: bytes) -> httpx.Response:
        return await self.page.put(f"/import/files/{self.token}/{name}", content=content)

    async def begin(self, **answers: str) -> str:
        shown = (await self.page.post(f"/import/{self.token}", data=answers, headers=HTMX)).text
        for _ in range(3000):
            if "every 1s" not in shown:
                return shown
            await asyncio.sleep(0.1)
            shown = (await self.page.get("/import/state", headers=HTMX)).text
        pytest.fail(f"it never ended: {shown}")

    async def send(self, name: str, content: bytes, **answers: str) -> str:
        self.token = uuid4().hex
        assert (await self.put(name, content)).status_code == 204
        return await self.begin(**answers)


@pytest.fixture
async def folder(app: FastAPI, database: AsyncEngine, redis: Redis, tmp_path: Path) -> AsyncIterator[Path]:
    """Where uploads lie while they are needed. Two megabytes are the most that is taken."""
    async with AsyncExitStack() as stack:
        settings = Settings(tga_data_dir=tmp_path, import_max_mb=2, tga_min_free_disk_mb=0)
        home, supervisor = DataFolder(tmp_path), Supervisor()
        home.make()
        health, steps = Health(supervisor, demo=False), Steps(Console(quiet=True))
        running = Running("", "")
        runtime = Runtime(settings, steps, home, supervisor, health, stack, database, redis, running, joined=False)
        desk = open_import_desk(runtime)
        app.state.services = replace(app.state.services, imports=desk)
        await runtime.start_task("imports", desk.run)
        yield tmp_path / "imports"


async def test_from_a_look_to_posts_and_a_second_time_nothing_changes(
    folder: Path, town: Town, client_of: ClientOf
) -> None:
    sender = Sender(client_of(town.admin, page=True))
    assert 'data-upload="' in (await sender.page.get("/import")).text
    looked = await sender.send("export.zip", zipped(result__json=export(30)), only_look="true")
    assert "Nothing was changed" in looked
    assert "<b>30</b>new" in looked
    assert "Import it now" in looked
    assert await town.archive.rows("SELECT 1 FROM posts WHERE channel_id = :id", id=CHANNEL) == []
    done = await sender.begin()
    assert "<b>30</b>new" in done
    assert f"/channels/{CHANNEL}" in done
    assert await emptied(folder), "what is imported is not kept"
    again = await sender.send("result.json", export(31))
    assert "<b>1</b>new" in again
    assert "<b>30</b>here already" in again
    assert len(await town.archive.rows("SELECT 1 FROM posts WHERE channel_id = :id", id=CHANNEL)) == 31


async def test_what_a_person_must_say_is_asked_for_and_the_files_are_kept_meanwhile(
    folder: Path, town: Town, client_of: ClientOf
) -> None:
    sender = Sender(client_of(town.admin, page=True))
    refused = await sender.send("result.json", export(3, type="personal_chat", id=777))
    assert "were not asked" in refused
    assert len(kept(folder)) == 1
    assert "<b>3</b>new" in await sender.begin(private="true")
    without = json.dumps(chat([old(message(number)) for number in range(1, 3)])).encode()
    assert "time zone the computer was" in await sender.send("result.json", without)
    assert "is no time zone" in await sender.begin(zone="Mars/Base")
    assert "<b>2</b>new" in await sender.begin(zone="Europe/Moscow")
    await sender.page.post("/import")
    assert 'type="file"' in (await sender.page.get("/import")).text


async def test_broken_ones_bombs_and_too_much_are_refused_and_leave_nothing(
    folder: Path, town: Town, client_of: ClientOf
) -> None:
    sender = Sender(client_of(town.admin, page=True))
    for name, content, told in (
        ("a.zip", b"PK no zip", "is damaged, or no zip"),
        ("b.zip", zipped(result__json=b" " * 60_000_000), "it is not read"),
        ("result.json", export(3)[:-20], "result.json"),
        ("c.html", b"<p>some page</p>", "c.html"),
        ("d.zip", zipped(readme__txt=b"x"), "holds no export"),
    ):
        shown = await sender.send(name, content)
        assert told in shown
        assert "Nothing of it was stored" in shown
        assert str(folder) not in shown, "our folders are nobody's business"
    assert await emptied(folder)
    sender.token = uuid4().hex
    sender.page.cookies.set("tga_language", "ru")
    large = await sender.put("result.json", bytes(2_000_001))
    assert (large.status_code, "IMPORT_MAX_MB" in large.text, "здесь не принимается" in large.text) == (413, True, True)

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield bytes(LONGEST_BODY)

    answer = await sender.page.put(f"/import/files/{sender.token}/result.json", content=endless())
    assert answer.status_code == 413, "also when its length is not told"
    assert kept(folder) == []
    for name in ("photo.jpg", "..%2Fresult.json", "%00.json"):
        assert (await sender.put(name, b"x")).status_code in {404, 422}, name
    assert "больше нет" in await sender.begin()


async def test_who_may(folder: Path, town: Town, client_of: ClientOf) -> None:
    assert (await Sender(client_of(town.member, page=True)).put("result.json", b"{}")).status_code == 403
    forged = client_of(town.admin, page=True)
    del forged.headers["X-CSRF-Token"]
    assert (await Sender(forged).put("result.json", b"{}")).status_code == 403
    assert kept(folder) == []
    shared = await Sender(client_of(town.other, page=True)).send("result.json", export(2))
    assert "ask the operator" in shared, "what all tenants share is written by the operator"


def test_each_refusal_can_be_said() -> None:
    texts = load_texts()
    for key in (*KEYS, *(f"import.failed_{reason}" for reason in REASONS.values())):
        assert all(texts(language, key, size="1 MB") for language in LANGUAGES)
