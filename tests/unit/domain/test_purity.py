"""The domain is pure: standard library without I/O, no clock, no chance, no settings."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import telegram_assistant.domain

pytestmark = pytest.mark.unit

PACKAGE = "telegram_assistant.domain"
FOLDER = Path(telegram_assistant.domain.__path__[0])
MODULES = sorted(FOLDER.rglob("*.py"))

# Of the standard library, what reads or writes the world outside.
IMPURE = frozenset(
    {"asyncio", "ftplib", "http", "io", "logging", "multiprocessing", "os", "pathlib", "secrets", "select", "shutil"}
    | {"signal", "smtplib", "socket", "sqlite3", "ssl", "subprocess", "sys", "tempfile", "threading", "time"}
)
# Attributes that ask a clock or a dice; `random.Random` alone is allowed, as the type of an argument.
CLOCKS = frozenset({"now", "utcnow", "today", "monotonic", "perf_counter", "time_ns", "uuid1", "uuid4"})
BUILTINS = frozenset({"open", "input", "print", "eval", "exec", "__import__"})


def violations(source: str) -> list[str]:
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found += [f"import {name.name}" for name in names if not allowed(name.name)]
                found += ["import random" for name in names if name.name == "random"]
            case ast.ImportFrom(module=module, level=level, names=names):
                whole = module == "telegram_assistant"  # then the names are modules
                if level or not all(allowed(f"{module}.{name.name}" if whole else module or "") for name in names):
                    found.append(f"from {'.' * level}{module or ''} import")
                found += [f"from {module} import {name.name}" for name in names if name.name in CLOCKS]
                found += [
                    f"from random import {name.name}" for name in names if module == "random" and name.name != "Random"
                ]
            case ast.Attribute(attr=attr) if attr in CLOCKS:
                found.append(f".{attr}")
            case ast.Call(func=ast.Name(id=name)) if name in BUILTINS:
                found.append(f"{name}()")
            case ast.Call(func=ast.Name(id="Random"), args=[]):
                found.append("Random()")
            case ast.AsyncFunctionDef(name=name, body=[*_, last]) if ast.unparse(last) != "...":
                found.append(f"async def {name}")  # a protocol may ask for one
            case ast.Global(names=names):
                found.append(f"global {', '.join(names)}")
            case _:
                pass
    return found


def allowed(module: str) -> bool:
    if module in {PACKAGE, "telegram_assistant.errors", "telegram_assistant.names"} or module.startswith(f"{PACKAGE}."):
        return True
    top = module.partition(".")[0]
    return top == "__future__" or (top in sys.stdlib_module_names and top not in IMPURE)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_domain_modules_are_pure(path: Path) -> None:
    assert violations(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_domain_modules_say_what_they_are(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "source",
    [
        "import redis.asyncio",
        "import time",
        "import random",
        "from random import uniform",
        "from telegram_assistant.config import Settings",
        "from telegram_assistant import config",
        "from . import post",
        "from sqlalchemy import select",
        "from datetime import datetime\nx = datetime.now()",
        "import datetime\nx = datetime.datetime.utcnow()",
        "import datetime\nx = datetime.date.today()",
        "from uuid import uuid4",
        "import uuid\nx = uuid.uuid4()",
        "x = open('file')",
        "from random import Random\nx = Random()",
        "def f():\n    global x\n    x = 1",
        "def f():\n    import socket",
        "async def f():\n    return 1",
    ],
)
def test_the_rule_finds_what_it_forbids(source: str) -> None:
    assert violations(source)


@pytest.mark.parametrize(
    "source",
    [
        "from random import Random",
        "from telegram_assistant.domain.post import Post",
        "from zoneinfo import ZoneInfo",
        "class Source(Protocol):\n    async def page(self) -> int: ...",
        "import uuid\nx = uuid.uuid5(a, b)",
    ],
)
def test_the_rule_allows_what_is_pure(source: str) -> None:
    assert violations(source) == []
