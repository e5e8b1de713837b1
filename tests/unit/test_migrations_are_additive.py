"""A rolling upgrade: while processes of the former version still run, the newer schema takes nothing from them."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from alembic.migration import MigrationContext
from alembic.operations import Operations

import telegram_assistant.stores.postgres.migrations as package

pytestmark = pytest.mark.unit

FIRST = "0005"  # before it nothing was released that could run beside a newer version
FOLDER = Path(next(iter(package.__path__))) / "versions"
FILES = [path for path in sorted(FOLDER.glob("[0-9]*.py")) if path.name >= FIRST]
TAKES_AWAY = re.compile(
    r"\b(DROP (TABLE|COLUMN|VIEW|TYPE|SCHEMA)|RENAME|TRUNCATE"
    r"|ALTER COLUMN \S+ (SET NOT NULL|DROP DEFAULT|(SET DATA )?TYPE))\b"
)
ADDS = re.compile(r"ALTER TABLE (\S+) ADD COLUMN (\S+) (.*)")
CONSTRAINS = re.compile(r"ALTER TABLE (\S+) ADD CONSTRAINT (\S+) (.*)")
FREES = re.compile(r"ALTER TABLE \S+ DROP CONSTRAINT (?:IF EXISTS )?(\S+)")
REVOKES = re.compile(r"REVOKE SELECT ON (\S+) FROM (\S+)")


def statements(path: Path) -> list[str]:
    """What a migration would tell PostgreSQL."""
    spec = importlib.util.spec_from_file_location(f"migration_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    buffer = StringIO()
    context = MigrationContext.configure(
        dialect_name="postgresql", opts={"as_sql": True, "output_buffer": buffer, "literal_binds": True}
    )
    with Operations.context(context):
        module.upgrade()
    return [" ".join(statement.split()) for statement in buffer.getvalue().split(";") if statement.strip()]


def troubles(told: list[str]) -> Iterator[str]:
    """What would break the former version."""
    made = {found[1] for one in told if (found := re.match(r"CREATE TABLE (\S+)", one))}
    added = {(found[1], found[2]) for one in told if (found := ADDS.match(one))}
    freed = {found[1] for one in told if (found := FREES.match(one))}
    for one in told:
        if TAKES_AWAY.search(one):
            yield f"takes away: {one}"
        if (found := ADDS.match(one)) and "NOT NULL" in found[3] and "DEFAULT" not in found[3]:
            yield f"older versions do not fill it: {one}"
        if (found := CONSTRAINS.match(one)) and found[1] not in made and found[2] not in freed:
            columns = {column for table, column in added if table == found[1]}
            if not any(re.search(rf"\b{column}\b", found[3]) for column in columns):
                yield f"older versions may break it: {one}"
        if found := REVOKES.match(one):
            again = rf"GRANT SELECT .*ON {found[1]} TO {found[2]}"
            if not any(re.match(again, other) for other in told):
                yield f"takes a right away: {one}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_takes_nothing_from_the_former_version(path: Path) -> None:
    told = statements(path)
    assert told
    assert list(troubles(told)) == []


def test_each_follows_the_one_before_it() -> None:
    """Two that landed with the same number would stop every start."""
    said = [
        re.findall(r'^(?:down_)?revision(?:: \S+)? = "?(\w+)"?', path.read_text(), re.MULTILINE)
        for path in sorted(FOLDER.glob("[0-9]*.py"))
    ]
    numbers = [f"{number:04}" for number in range(1, len(said) + 1)]
    assert said == [[number, before] for number, before in zip(numbers, ["None", *numbers], strict=False)]


def test_there_are_migrations_to_look_at() -> None:
    assert len(FILES) >= 7


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE posts CASCADE",
        "ALTER TABLE posts DROP COLUMN text",
        "ALTER TABLE posts RENAME text TO words",
        "ALTER TABLE posts ALTER COLUMN text TYPE VARCHAR(10)",
        "ALTER TABLE posts ALTER COLUMN text SET NOT NULL",
        "ALTER TABLE posts ADD COLUMN mood TEXT NOT NULL",
        "ALTER TABLE posts ADD CONSTRAINT ck_posts_text CHECK (text <> '')",
        "REVOKE SELECT ON posts FROM tga_tenant",
    ],
)
def test_the_rules_can_fail(statement: str) -> None:
    assert list(troubles([statement]))


def test_what_is_allowed() -> None:
    allowed = [
        "CREATE TABLE moods (id UUID NOT NULL)",
        "ALTER TABLE posts ADD COLUMN mood TEXT DEFAULT '' NOT NULL",
        "ALTER TABLE posts ADD CONSTRAINT ck_posts_mood CHECK (mood <> 'bad')",
        "ALTER TABLE posts DROP CONSTRAINT ck_posts_kind",
        "ALTER TABLE posts ADD CONSTRAINT ck_posts_kind CHECK (kind IN ('a', 'b'))",
    ]
    assert list(troubles(allowed)) == []
