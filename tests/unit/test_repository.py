"""The repository as a whole: it imports, it is pinned, it is the same version everywhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import telegram_assistant

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
LOCKS = sorted((ROOT / "requirements").glob("*.lock"))

IMPORT_ALL = """
import importlib, pkgutil, socket, sys, threading

def refuse(*arguments, **options):
    raise AssertionError(f"an import opened a connection: {arguments}")

socket.socket.connect = socket.socket.connect_ex = socket.socket.bind = socket.getaddrinfo = refuse
count = 0
for package in ("telegram_assistant", "telegram_simulator"):
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        if not module.name.endswith((".__main__", ".migrations.env")):
            importlib.import_module(module.name)
            count += 1
assert threading.active_count() == 1, threading.enumerate()
print(count)
"""


def test_every_module_imports_and_opens_nothing() -> None:
    """SPEC 7.7, STYLE 1: a missing dependency shows here, not in one container at night."""
    done = subprocess.run([sys.executable, "-c", IMPORT_ALL], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 30


UNAWAITED = """
import pytest

pytestmark = pytest.mark.unit

async def read() -> str:
    return "2025-11-15"

async def test_awaited() -> None:
    assert await read()

async def test_unawaited() -> None:
    read()
"""


def test_an_unawaited_coroutine_fails_the_tests(tmp_path: Path) -> None:
    """SPEC 7.1: with the configuration of this very project."""
    file = tmp_path / "test_unawaited.py"
    file.write_text(UNAWAITED, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "-n", "0", "-p", "no:cacheprovider"]
    done = subprocess.run([*command, str(file)], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "coroutine 'read' was never awaited" in done.stdout
    assert "1 failed, 1 passed" in done.stdout


def test_the_version_is_the_same_everywhere() -> None:
    """STYLE 12."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert telegram_assistant.__version__ == project["version"]
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    released = re.findall(r"^## \[?(\d+\.\d+\.\d+)", changelog, re.MULTILINE)
    assert released, "CHANGELOG.md names no version"
    assert released[0] == telegram_assistant.__version__


def pins(lock: Path) -> dict[str, str]:
    """Package → version; asserts that every line is a pin, a hash or a comment."""
    found: dict[str, str] = {}
    for line in lock.read_text("utf-8").splitlines():
        if pin := re.match(r"([A-Za-z0-9._-]+)(?:\[[\w,-]+\])?==([^ ;\\]+)", line):
            found[pin[1].lower()] = pin[2]
        else:
            assert re.match(r"\s+--hash=sha256:[0-9a-f]{64}( \\)?$|\s*#|$", line), f"{lock.name}: {line}"
    return found


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_every_pin_has_a_hash_and_no_address(lock: Path) -> None:
    text = lock.read_text("utf-8")
    assert pins(lock)
    assert "://" not in text
    blocks = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)
    assert [block for block in blocks if re.match(r"[A-Za-z0-9]", block) and "--hash=sha256:" not in block] == []


def test_what_runs_is_what_is_tested() -> None:
    """SPEC 7.7: one lock."""
    run, dev = (pins(ROOT / "requirements" / f"{name}.lock") for name in ("run", "dev"))
    assert run
    assert run.items() <= dev.items()


def test_every_dependency_is_locked() -> None:
    """SPEC 7.7."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    run, dev = (pins(ROOT / "requirements" / f"{name}.lock") for name in ("run", "dev"))

    def names(requirements: list[str]) -> set[str]:
        return {re.split(r"[^A-Za-z0-9._-]", line)[0].lower() for line in requirements}

    assert names(project["project"]["dependencies"]) <= set(run)
    assert names(project["dependency-groups"]["dev"]) <= set(dev)


PYTHON = """#!/bin/sh
case "$*" in
    *venv*) rm -rf .venv; mkdir -p .venv/bin; cp python .venv/bin/ ;;
    *pip*) touch .venv/bin/uv ;;
esac
"""


def test_only_another_lock_makes_a_new_venv(tmp_path: Path) -> None:
    """A checkout touches files that it does not change."""
    make = shutil.which("make")
    if make is None:
        pytest.skip("no make")
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "python").write_text(PYTHON, encoding="ascii")
    (tmp_path / "python").chmod(0o755)
    lock, kept, uv = tmp_path / "requirements" / "bootstrap.lock", tmp_path / ".venv" / "kept", ".venv/bin/uv"
    lock.parent.mkdir()
    command = ["env", "-u", "MAKEFLAGS", "-u", "MAKELEVEL", make, "PYTHON=./python", uv]
    for content, stays in (("uv==1", False), ("uv==1", True), ("uv==2", False), ("uv==2", True)):
        lock.write_text(content, encoding="ascii")
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
        assert kept.exists() is stays
        kept.touch()
        os.utime(tmp_path / uv, (1, 1))  # so that the lock is newer the next time


def tracked() -> list[Path]:
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    command = [git, "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


def test_no_file_names_a_registry() -> None:
    """Everybody installs from where their machine is set up to; an address in the tree would override that."""
    addresses = re.compile(
        rb"(?<!no-emit-)(?:extra-)?index-url|find-links\s*[= ]\s*\S*://|pypi\.org/simple|pythonhosted\.org"
        rb"|registry\.npmjs|://[^\s\"']+/simple\b"
    )
    naming = [path for path in tracked() if path != Path(__file__) and addresses.search(path.read_bytes())]
    assert naming == []


def test_no_secret_or_data_is_tracked() -> None:
    """LESSONS 24: a session file was in the repository."""
    private = re.compile(r"\.session(-journal)?$|(^|/)\.env$|^data/|\.sqlite3?$|(^|/)id_rsa")
    names = [path.relative_to(ROOT).as_posix() for path in tracked()]
    assert [name for name in names if private.search(name)] == []
