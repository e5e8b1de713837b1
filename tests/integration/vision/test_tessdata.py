"""scripts/tessdata: quick when there is nothing to do, and never a reason for the set-up to fail."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from telegram_assistant.ai.vision.ocr import FOLDERS, find_trained_data

pytestmark = pytest.mark.integration

SCRIPT = Path(__file__).parents[3] / "scripts" / "tessdata"
TOOLS = ("sh", "dirname", "find", "touch", "mktemp", "rm", "chmod", "mkdir", "tail", "timeout")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "scripts").mkdir()
    (tmp_path / ".venv").mkdir()
    shutil.copy(SCRIPT, tmp_path / "scripts")
    return tmp_path


def run(project: Path, **commands: str) -> subprocess.CompletedProcess[str]:
    """With these commands of ours, and none of the machine's beyond the plain ones."""
    folder = project / "bin"
    folder.mkdir(exist_ok=True)
    for tool in TOOLS:
        where = shutil.which(tool)
        if where is not None and not (folder / tool).exists():
            (folder / tool).symlink_to(where)
    for name, body in commands.items():
        file = folder / name.replace("_", "-")
        file.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        file.chmod(0o755)
    return subprocess.run(
        [project / "scripts" / "tessdata"], env={"PATH": str(folder)}, capture_output=True, text=True, check=False
    )


without_system_data = pytest.mark.skipif(
    find_trained_data(None, FOLDERS[1:]) is not None, reason="this machine has the data: the script has nothing to do"
)


def test_what_is_there_is_left_alone(project: Path) -> None:
    folder = project / ".venv" / "tessdata"
    folder.mkdir()
    for language in ("rus", "eng"):
        (folder / f"{language}.traineddata").write_text("data", encoding="utf-8")
    done = run(project)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert sorted(file.name for file in folder.iterdir()) == ["eng.traineddata", "rus.traineddata"]


@without_system_data
def test_a_machine_without_packages_goes_on_without(project: Path) -> None:
    done = run(project)
    assert done.returncode == 0
    assert "Text on pictures will not be read: this machine has no apt-get" in done.stderr
    again = run(project)
    assert (again.returncode, again.stderr) == (0, ""), "said once is enough for an hour"


@without_system_data
def test_a_machine_without_a_network_goes_on_without(project: Path) -> None:
    done = run(project, apt_get="echo 'E: Could not resolve host' >&2; exit 100", dpkg_deb="exit 0")
    assert done.returncode == 0
    assert "cannot be fetched (E: Could not resolve host)" in done.stderr
    assert not (project / ".venv" / "tessdata").exists()
