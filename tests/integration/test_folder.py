"""The data folder: one owner at a time, and one line for whatever the file system refuses."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from telegram_assistant.embedded.folder import DataFolder, Running, explain_os_error
from telegram_assistant.errors import Fatal

pytestmark = pytest.mark.integration

HOLD = """
import sys
from pathlib import Path
from telegram_assistant.embedded.folder import DataFolder
data = DataFolder(Path(sys.argv[1]))
data.open()
print("held", flush=True)
sys.stdin.read()
"""


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_it_is_made_with_its_parents_and_passable_but_not_readable(folder: Path) -> None:
    data = DataFolder(folder / "deep" / "data")
    data.open()
    data.close()
    assert mode(data.path) == 0o711
    assert mode(data.path / "keys") == 0o700
    assert mode(data.path / "log") == 0o700


def test_permissions_of_an_existing_folder_stay(folder: Path) -> None:
    folder.chmod(0o700)
    data = DataFolder(folder)
    data.open()
    data.close()
    assert mode(folder) == 0o700


def test_a_second_owner_is_refused_with_the_number_of_the_first(folder: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(Fatal, match=rf"in use by another tga \(process {holder.pid}\): stop that one"):
            DataFolder(folder).open()
        holder.kill()
    data = DataFolder(folder)
    data.open()  # the kernel dropped the lock with the process
    data.close()


def test_it_can_be_opened_again_after_it_was_closed(folder: Path) -> None:
    data = DataFolder(folder)
    for _ in range(2):
        data.open()
        data.close()
    data.close()


def test_too_little_room_is_refused(folder: Path) -> None:
    with pytest.raises(Fatal, match=r"Only \d+ MB are free in .*: free some space, or set TGA_DATA_DIR"):
        DataFolder(folder, min_free_mb=10**9).open()


def test_a_file_is_no_folder(folder: Path) -> None:
    (folder / "file").touch()
    for path in (folder / "file", folder / "file" / "below"):
        with pytest.raises(Fatal, match="is not a folder: set TGA_DATA_DIR to one"):
            DataFolder(path).open()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere; the end-to-end tests do this as another user")
def test_a_folder_of_somebody_else_is_refused(folder: Path) -> None:
    folder.chmod(0o500)
    with pytest.raises(Fatal, match=r"No permission to write in .*: set TGA_DATA_DIR to a folder of yours"):
        DataFolder(folder / "data").open()


@pytest.mark.parametrize(
    "number,advice",
    [
        (errno.ENOSPC, "is full: free some space, or set TGA_DATA_DIR"),
        (errno.EROFS, "No permission to write"),
        (errno.EPERM, "No permission to write"),
        (errno.EIO, "Cannot use the data folder"),
    ],
)
def test_what_the_file_system_says_is_one_line(number: int, advice: str) -> None:
    message = explain_os_error(OSError(number, os.strerror(number)), Path("/srv/tga"))
    assert advice in message
    assert "/srv/tga" in message
    assert "\n" not in message


def test_a_secret_is_made_once_and_kept_private(folder: Path) -> None:
    data = DataFolder(folder)
    data.open()
    secret = data.secret("engine.password")
    assert len(secret) >= 32
    assert data.secret("engine.password") == secret
    assert data.secret("other.password") != secret
    assert mode(folder / "keys" / "engine.password") == 0o600
    data.close()


def test_a_secret_survives_a_start_that_was_killed_while_making_it(folder: Path) -> None:
    data = DataFolder(folder)
    data.open()
    (folder / "keys" / "engine.password.new").write_text("half", encoding="ascii")
    secret = data.secret("engine.password")
    assert secret != "half"
    assert data.secret("engine.password") == secret
    data.close()


def test_other_commands_find_the_engines_of_a_running_one(folder: Path) -> None:
    data, other = DataFolder(folder), DataFolder(folder)
    assert other.running() is None
    data.open()
    with pytest.raises(Fatal, match="is just starting: try again"):
        other.running()
    where = Running("postgresql://tga:s3cret@127.0.0.1:1/tga", "redis://127.0.0.1:2/0")
    data.announce(where)
    assert other.running() == where
    assert mode(folder / "keys" / "running.json") == 0o600
    data.close()
    assert other.running() is None


def test_what_a_killed_one_announced_is_forgotten(folder: Path) -> None:
    (folder / "keys").mkdir(mode=0o700)
    (folder / "keys" / "running.json").write_text('{"database_url": "x", "redis_url": "y"}', encoding="ascii")
    data, other = DataFolder(folder), DataFolder(folder)
    assert other.running() is None
    data.open()
    with pytest.raises(Fatal, match="is just starting"):
        other.running()
    data.close()
