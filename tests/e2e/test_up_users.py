"""As root and as a plain user, also where folders are private: nobody's permissions are changed."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import telegram_assistant
from telegram_assistant.embedded.postgres import COMMON_HOME, reachable_by_others
from tests.e2e.conftest import Starter

pytestmark = pytest.mark.e2e

AS_ROOT = os.geteuid() == 0
needs_root = pytest.mark.skipif(not AS_ROOT, reason="needs root")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def plain_python(place: Path) -> list[str]:
    """A Python with our packages that any user may run: ours, or a copy of it where it lies in a private home."""
    source = Path(str(telegram_assistant.__file__)).parents[1]
    packages = [source, *(Path(path) for path in sys.path if path.endswith("site-packages"))]
    if not all(reachable_by_others(path) for path in packages):
        pytest.skip("the checkout lies where other users cannot read it")
    python = Path(sys.executable).resolve()
    if reachable_by_others(python.parent):
        return [sys.executable]
    copy = place / "python"
    standard = Path(os.__file__).parent
    heavy = shutil.ignore_patterns("test", "site-packages", "idlelib", "tkinter", "ensurepip", "config-*")
    shutil.copytree(standard, copy / standard.relative_to(sys.base_prefix), ignore=heavy)
    (copy / "bin").mkdir()
    shutil.copy2(python, copy / "bin")
    for library in (python.parents[1] / "lib").glob("libpython*.so*"):
        shutil.copy2(library, copy / "lib")
    path = os.pathsep.join(str(package) for package in packages)
    settings = (f"PYTHONHOME={copy}", f"PYTHONPATH={path}", f"LD_LIBRARY_PATH={copy / 'lib'}")
    return ["/usr/bin/env", *settings, str(copy / "bin" / python.name)]


@pytest.fixture
def nobody() -> int:
    return pwd.getpwnam("nobody").pw_uid


@pytest.fixture
def home_of_nobody(place: Path, nobody: int) -> Path:
    """A private home: as most people have."""
    home = place / "home"
    home.mkdir(mode=0o700)
    os.chown(home, nobody, nobody)
    return home


@pytest.fixture
def private_home_of_root(place: Path) -> Path:
    (place / "root").mkdir(mode=0o700)
    return place / "root"


@needs_root
async def test_as_a_plain_user_in_a_private_home(
    start: Starter, home_of_nobody: Path, private_home_of_root: Path, nobody: int, plain_python: list[str]
) -> None:
    # HOME is often still that of root, after sudo or su.
    tga = await start(home_of_nobody / "data", python=plain_python, user=nobody, HOME=str(private_home_of_root))
    await tga.ready()
    await tga.well()
    assert {engine.uids().effective for engine in tga.engines().values()} == {nobody}
    assert (home_of_nobody / "data" / "postgres" / "PG_VERSION").exists()
    assert not (home_of_nobody / "data" / "postgres").is_symlink()
    assert mode(home_of_nobody) == 0o700
    assert (await tga.stop()).code == 0


@needs_root
async def test_a_plain_user_where_it_may_not_write(
    start: Starter, place: Path, nobody: int, plain_python: list[str]
) -> None:
    (place / "of-root").mkdir(mode=0o755)
    outcome = await (await start(place / "of-root" / "data", python=plain_python, user=nobody)).end()
    assert outcome.code != 0
    assert outcome.err == (
        f"error: No permission to write in {place / 'of-root' / 'data'}: set TGA_DATA_DIR to a folder of yours"
        " (Permission denied)\n"
    )
    assert list((place / "of-root").iterdir()) == []


@pytest.mark.skipif(AS_ROOT, reason="root may write everywhere; see the test above")
async def test_where_we_may_not_write(start: Starter, place: Path) -> None:
    (place / "closed").mkdir(mode=0o555)
    outcome = await (await start(place / "closed" / "data")).end()
    assert outcome.code != 0
    assert outcome.err.startswith("error: No permission to write in")
    assert len(outcome.err.splitlines()) == 1


@pytest.fixture
def private(place: Path) -> Iterator[Path]:
    """A home of root that PostgreSQL's user cannot enter; what had to be put elsewhere is removed afterwards."""
    before = set(COMMON_HOME.iterdir()) if COMMON_HOME.exists() else None
    home = place / "private"
    home.mkdir(mode=0o700)
    yield home
    link = home / "data" / "postgres"
    if link.is_symlink():
        shutil.rmtree(link.resolve())
    if before is None and COMMON_HOME.exists():
        shutil.rmtree(COMMON_HOME)


@needs_root
async def test_as_root_in_a_private_home(start: Starter, private: Path) -> None:
    tga = await (await start(private / "data")).ready()
    await tga.query("CREATE TABLE kept AS SELECT 42 AS answer")
    assert tga.engines()["postgres"].uids().effective != 0
    assert mode(private) == 0o700
    link = private / "data" / "postgres"
    assert link.is_symlink()
    assert link.resolve().parent == COMMON_HOME
    assert mode(link.resolve()) == 0o700
    assert (await tga.stop()).code == 0

    again = await (await start(private / "data")).ready()
    assert await again.query("SELECT answer FROM kept") == 42
    assert (await again.stop()).code == 0
    assert mode(private) == 0o700
