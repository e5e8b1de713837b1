"""`tga --help` and `tga version` load nothing but what prints them; each command loads what its work needs."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
import typer

from telegram_assistant import __version__
from telegram_assistant.cli.main import app

pytestmark = pytest.mark.unit

MOST_MODULES = 260  # typer and rich alone are 146; all that we have, 1,833
MODELS = {"numpy", "onnxruntime", "PIL", "slovnet", "natasha", "navec", "pymorphy3", "tesserocr", "trafilatura"}
INDEXES = {"neo4j", "ladybug", "qdrant_client", "qdrant_edge", "obstore"}
DOORS = {"fastapi", "uvicorn", "starlette", "aiogram", "mcp", "telethon", "telegram_simulator"}
ENGINES = {"sqlalchemy", "asyncpg", "alembic", "redis", "httpx", "pydantic", "opentelemetry", "cryptography"}
START = """
import json, sys
sys.argv = ["tga", *sys.argv[1:]]
from telegram_assistant.__main__ import main
try:
    main()
finally:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


def started(*arguments: str) -> tuple[str, set[str]]:
    """What a fresh process prints, and which modules it has loaded by then."""
    done = subprocess.run(
        [sys.executable, "-c", START, *arguments], capture_output=True, text=True, check=True, timeout=300
    )
    return done.stdout, set(json.loads(done.stderr))


@pytest.mark.parametrize("arguments", [["--help"], ["version"], ["--version"], ["channels", "--help"]], ids=" ".join)
def test_what_only_prints_loads_little(arguments: list[str]) -> None:
    printed, modules = started(*arguments)
    assert modules & (MODELS | INDEXES | DOORS | ENGINES) == set()
    assert len(modules) < MOST_MODULES
    assert ("The channels" in printed) if "channels" in arguments else (__version__ in printed or "Maintain" in printed)


@pytest.mark.parametrize("command", ["channels list", "ledger", "jobs list", "dead-letters list", "users list"])
def test_a_command_of_the_database_loads_no_models_and_no_telegram(command: str) -> None:
    printed, modules = started(*command.split(), "--help")
    assert f"tga {command}" in printed
    assert modules & (MODELS | {"telethon", "telegram_simulator", "fastapi", "aiogram", "mcp", "neo4j"}) == set()


def test_only_capture_loads_telethon() -> None:
    """The API and the workers once loaded it for one function."""
    asked = "import sys, telegram_assistant.wiring.roles; print({'telethon', 'telegram_simulator'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout == "set()\n"


def test_every_command_of_the_table_can_be_loaded_and_shows_an_example() -> None:
    """A name that leads nowhere would be noticed only by the one who calls it."""
    groups: list[tuple[str, Any]] = [("tga", typer.main.get_command(app))]
    silent = []
    while groups:
        path, group = groups.pop()
        for name, command in group.commands.items():
            if hasattr(command, "commands"):
                groups.append((f"{path} {name}", command))
                continue
            loaded = command.make_context(name, [], resilient_parsing=True).command
            if not loaded.help or (not (loaded.epilog or "").startswith("Example") and name != "version"):
                silent.append(f"{path} {name}")
    assert silent == []
