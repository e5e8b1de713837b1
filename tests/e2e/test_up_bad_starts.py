"""Every bad start: one line that says what to do, exit code not 0, nothing damaged."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from telegram_assistant.embedded.process import free_port
from tests.e2e.conftest import Outcome, Starter

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]

AS_ROOT = os.geteuid() == 0


def one_line(outcome: Outcome, *parts: str) -> None:
    """What a person sees of a start that cannot be."""
    assert outcome.code != 0
    assert len(outcome.err.splitlines()) == 1, outcome.err
    assert outcome.err.startswith("error: ")
    assert "Traceback" not in outcome.err
    assert "s3cret" not in outcome.err
    for part in parts:
        assert part in outcome.err


async def test_bad_starts_damage_nothing(
    start: Starter, place: Path, subtests: pytest.Subtests, database_url: str
) -> None:
    """One folder with data goes through them all, and is well in the end."""
    first = await (await start()).ready()
    await first.query("CREATE TABLE kept AS SELECT 42 AS answer")

    with subtests.test("two starts on one folder"):
        outcome = await (await start()).end()
        one_line(outcome, str(place / "data"), f"in use by another tga (process {first.process.pid}): stop that one")
        assert (await first.details())["engines"]["postgres"]["status"] == "ok"

    with subtests.test("a taken port"):
        port = str(urlsplit(first.url).port)
        outcome = await (await start(place / "other", INGEST_HEALTH_PORT=port)).end()
        one_line(outcome, f"Cannot listen on 127.0.0.1:{port}", "or set INGEST_HEALTH_PORT to another")
        assert not (place / "other").exists()
    assert (await first.stop()).code == 0

    with subtests.test("little room"):
        outcome = await (await start(TGA_MIN_FREE_DISK_MB="999999999")).end()
        one_line(outcome, "999999999 MB are needed: free some space, or set TGA_DATA_DIR")

    with subtests.test("data of another PostgreSQL"):
        version = place / "data" / "postgres" / "PG_VERSION"
        made_by = version.read_text(encoding="ascii")
        version.write_text("17\n", encoding="ascii")
        one_line(await (await start()).end(), "was made by PostgreSQL 17", "or move that folder away to begin anew")
        version.write_text(made_by, encoding="ascii")

    # One of each; every other fault of an address: integration/test_server_checks.py and unit/test_address.py.
    with subtests.test("DATABASE_URL with a wrong password"):
        parts = urlsplit(database_url)
        url = f"postgres://{parts.username}:s3cret@{parts.hostname}:{parts.port}/postgres"
        one_line(await (await start(DATABASE_URL=url)).end(), "DATABASE_URL", "user or password is wrong")

    with subtests.test("REDIS_URL where nothing listens"):
        url = f"redis://:s3cret@127.0.0.1:{free_port()}/0"
        one_line(await (await start(REDIS_URL=url)).end(), "REDIS_URL", "or unset REDIS_URL")

    with subtests.test("a setting that cannot be"):
        one_line(await (await start(LOG_LEVEL="LOUD")).end(), "LOG_LEVEL='LOUD'")

    with subtests.test("a file instead of a folder"):
        (place / "file [1]").touch()
        outcome = await (await start(place / "file [1]")).end()
        one_line(outcome, f"{place / 'file [1]'} is not a folder: set TGA_DATA_DIR to one")

    again = await (await start()).ready()
    await again.well()
    assert await again.query("SELECT answer FROM kept") == 42
    assert (await again.stop()).code == 0


@pytest.fixture
def small_disk(place: Path) -> Iterator[Path]:
    """A real disk of 30 MB: too little for the files of PostgreSQL."""
    disk = place / "disk"
    disk.mkdir()
    mount, umount = shutil.which("mount"), shutil.which("umount")
    if not AS_ROOT or mount is None or umount is None:
        pytest.skip("a real small disk needs root")
    mounted = subprocess.run([mount, "-t", "tmpfs", "-o", "size=30m,mode=711", "tmpfs", str(disk)], check=False)
    if mounted.returncode:
        pytest.skip("this machine does not let us mount a small disk")
    yield disk
    subprocess.run([umount, "-l", str(disk)], check=True)


def resize(disk: Path, size: str) -> None:
    subprocess.run([shutil.which("mount") or "mount", "-o", f"remount,size={size}", str(disk)], check=True)


def fill(disk: Path) -> Path:
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(2**16))
        except OSError:
            pass
    return filler


async def test_a_full_disk(start: Starter, small_disk: Path, subtests: pytest.Subtests) -> None:
    data = small_disk / "data"

    with subtests.test("too small for the first start"):
        outcome = await (await start(data, TGA_MIN_FREE_DISK_MB="0")).end()
        one_line(outcome, "is full: free some space, or set TGA_DATA_DIR")
        assert not list(data.glob("postgres*"))

    resize(small_disk, "600m")
    tga = await (await start(data, TGA_MIN_FREE_DISK_MB="0")).ready()
    await tga.query("CREATE TABLE kept AS SELECT 42 AS answer")
    assert (await tga.stop()).code == 0

    with subtests.test("filled up since"):
        resize(small_disk, "200m")
        filler = fill(small_disk)
        early, late = await (await start(data)).end(), await (await start(data, TGA_MIN_FREE_DISK_MB="0")).end()
        filler.unlink()
        one_line(early, "Only 0 MB are free in", "free some space")
        one_line(late, "is full: free some space, or set TGA_DATA_DIR")

    tga = await (await start(data, TGA_MIN_FREE_DISK_MB="0")).ready()
    assert await tga.query("SELECT answer FROM kept") == 42
    assert (await tga.stop()).code == 0
