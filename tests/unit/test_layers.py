"""The layers of the house, in one place: an import points to a lower line, never up and never sideways."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import telegram_assistant

pytestmark = pytest.mark.unit

ROOT = Path(telegram_assistant.__file__).parent
OURS = "telegram_assistant"
# From the top down. Rooms of one line do not know each other.
LAYERS = (
    "__main__",
    "cli",
    "doctor",
    "backup",
    "wiring",
    "http bot mcp_server",  # the doors
    "services",  # what people do, the same behind every door
    "alerting jobs",
    "access health search",
    "stages",
    "ingest",
    "ai bus crawl index source",  # the engines
    "stores",
    "embedded",
    "processes",
    "config metrics",
    "freshness i18n language terminal tls tunnels",
    "domain",
    "channel_metrics errors log names",
)
# Inside a door: pages and API are two ways in, and know only what both stand on.
DOORS = (
    "http.app",
    "http.errors http.serving",
    "http.api http.web",
    "http.answers http.dependencies http.guards",
)


def imports() -> Iterator[tuple[str, str, str]]:
    """(who, whom, where) by modules, without the name of the package."""
    modules = {path: ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in ROOT.rglob("*.py")}
    names = {name.removesuffix(".__init__") for name in modules.values()}
    for path, name in modules.items():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                targets = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                targets = [f"{node.module}.{alias.name}" for alias in node.names]
            else:
                continue
            for target in targets:
                inner = target.removeprefix(f"{OURS}.")
                if inner != target and (known := _longest(inner, names)):
                    yield name.removesuffix(".__init__"), known, f"{path.relative_to(ROOT)}:{node.lineno}"


def _longest(name: str, names: set[str]) -> str | None:
    while name and name not in names:
        name = name.rpartition(".")[0]
    return name or None


def violations(layers: tuple[str, ...], edges: list[tuple[str, str, str]]) -> list[str]:
    """Imports between rooms of these layers that do not point down."""
    level = {room: number for number, line in enumerate(layers) for room in line.split()}
    found = []
    for who, whom, where in edges:
        ours, theirs = _room(who, level), _room(whom, level)
        if ours and theirs and ours != theirs and level[ours] >= level[theirs]:
            found.append(f"{where}: {ours} imports {theirs}")
    return found


def _room(module: str, level: dict[str, int]) -> str | None:
    while module and module not in level:
        module = module.rpartition(".")[0]
    return module or None


EDGES = list(imports())


def test_every_room_has_a_layer() -> None:
    rooms = {name.partition(".")[0] for who, whom, _ in EDGES for name in (who, whom)}
    assert rooms - {room for line in LAYERS for room in line.split()} == set()


def test_imports_point_down() -> None:
    assert violations(LAYERS, EDGES) == []


def test_pages_and_api_do_not_know_each_other() -> None:
    assert violations(DOORS, EDGES) == []


def test_packages_have_no_cycles() -> None:
    """Also found when the layers above were written wrongly."""
    below: dict[str, set[str]] = defaultdict(set)
    for who, whom, _ in EDGES:
        ours, theirs = who.partition(".")[0], whom.partition(".")[0]
        below[ours] |= {theirs} - {ours}
    while leaves := {room for room in below if not below[room] & set(below)}:
        for room in leaves:
            del below[room]
    assert dict(below) == {}


def test_the_rule_finds_what_it_forbids() -> None:
    upward = [
        ("stores.posts", "search.plan", "a"),
        ("http.web.page", "http.api.posts", "b"),
        ("bot.talk", "http", "c"),
    ]
    assert len(violations(LAYERS, upward)) == 2
    assert len(violations(DOORS, upward)) == 1
    assert violations(LAYERS, [("search.plan", "stores.posts", "a")]) == []
