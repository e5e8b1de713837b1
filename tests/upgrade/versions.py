"""Versions of the program as folders: former ones from the history, and the next one, made from this one."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

import telegram_assistant

ROOT = Path(__file__).parents[2]
PREVIOUS = Path(__file__).with_name("previous")
SOURCE = Path(str(telegram_assistant.__file__)).parents[1]
MIGRATIONS = Path("telegram_assistant/stores/postgres/migrations/versions")
GIT_SECONDS = 300.0

# What a migration may do, done to the tables that everybody writes to: these wait for everyone, and everyone for them.
NEXT = """
import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "{revision}", "{before}", None, None


def upgrade() -> None:
    op.create_table("moods", sa.Column("post_id", sa.UUID(), sa.ForeignKey("posts.id"), primary_key=True))
    for table in ("posts", "channels", "outbox", "post_steps", "search_documents", "post_media"):
        op.add_column(table, sa.Column("mood", sa.Text(), server_default="good", nullable=False))
        op.create_index(f"ix_{{table}}_mood", table, ["mood"])
    op.create_check_constraint("ck_posts_mood", "posts", "mood <> 'bad'")
"""


class Missing(Exception):
    """The history is not here."""


@dataclass(frozen=True)
class Version:
    """A version whose `src` is a folder of its own."""

    name: str
    source: Path

    @property
    def schema(self) -> str:
        """The newest that it knows."""
        return max(path.name for path in (self.source / MIGRATIONS).glob("[0-9]*.py"))[:4]


THIS = Version("this", SOURCE)


def listed() -> dict[str, str]:
    """Commits of former versions by name, the oldest first."""
    lines = PREVIOUS.read_text(encoding="ascii").splitlines()
    return dict(line.split() for line in lines if line and not line.startswith("#"))


def former(name: str, folder: Path) -> Version:
    """A version out of the history, put into `folder`. Raises Missing with the reason where that cannot be."""
    command = ["git", "-C", str(ROOT), "archive", "--format=tar", listed()[name], "src"]
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=GIT_SECONDS)
    except OSError as exc:
        raise Missing(f"git: {exc.strerror}") from exc
    if done.returncode != 0:
        raise Missing(done.stderr.decode(errors="replace").strip() or "git archive failed")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as packed:
        packed.extractall(folder, filter="data")
    return Version(name, folder / "src")


def following(folder: Path) -> Version:
    """The next version: this one with one migration more."""
    shutil.copytree(SOURCE, folder / "src")
    before = THIS.schema
    revision = f"{int(before) + 1:04}"
    code = NEXT.format(revision=revision, before=before)
    (folder / "src" / MIGRATIONS / f"{revision}_next.py").write_text(code, encoding="ascii")
    return Version("next", folder / "src")
