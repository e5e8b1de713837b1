"""The documentation: links lead somewhere, commands exist, every page is in the site, and nothing is out of date."""

from __future__ import annotations

import importlib
import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from telegram_assistant.cli.main import app

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("README*.md")), ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
BLOCK = re.compile(r"^( *)(```+|~~~+)[^\n]*\n(.*?)^\1\2 *$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?:(?<=\n\n)|\A)(?:(?: {4}|\t)[^\n]*\n|\n(?= {4}))+")
SPAN = re.compile(r"(`+)(.+?)(?<!`)\1(?!`)", re.DOTALL)
TARGET = r"\(<?([^()\s>]+)>?(?:\s+\"[^\"]*\")?\)"
LINK = re.compile(rf"(?<!!)\[(?:[^\[\]]|\[[^\]]*\])*\]{TARGET}")
PICTURE = re.compile(rf"!\[[^\]]*\]{TARGET}")  # may stand within a link
TAG = re.compile(r"(?:href|src)=\"([^\"]+)\"")
COMMAND = re.compile(
    r"^(?:\$ )?(?:(?:sudo (?:-u \w+ )?)?(?:ExecStart=)?(?:[A-Z0-9_]+=\S* )*(?:[\w./-]*/bin/)?tga"
    r"|docker compose run (?:-\S+ )*(?:ingest|worker|api|bot))(?: (.*))?$"
)


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@cache
def text(page: Path) -> str:
    return page.read_text("utf-8")


@cache
def prose(page: Path) -> str:
    """The page without its code, in which brackets and hashes mean something else."""
    return SPAN.sub("", INDENTED.sub("\n", BLOCK.sub("", text(page))))


@cache
def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings; `make docs` checks those of the site, which are made alike."""
    found: set[str] = set()
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", BLOCK.sub("", text(page)), re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        repeats = sum(known == slug or re.fullmatch(re.escape(slug) + r"-\d+", known) is not None for known in found)
        found.add(f"{slug}-{repeats}" if repeats else slug)
    return found


def wrong_links(page: Path) -> Iterator[str]:
    for link in (found for kind in (LINK, PICTURE, TAG) for found in kind.findall(prose(page))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = unquote(link).partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.is_file():
            yield f"{name(page)}: {link} does not exist"
        elif page.is_relative_to(DOCS) and not target.is_relative_to(DOCS):
            yield f"{name(page)}: {link} is outside docs/, where the site ends; name the file as code instead"
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            yield f"{name(page)}: {link}: there is no such heading"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_anchor_and_picture_is_there(page: Path) -> None:
    assert list(wrong_links(page)) == []


def commands(page: Path) -> Iterator[str]:
    """What follows `tga` on lines of code, and in code within a sentence."""
    blocks = [code for _, _, code in BLOCK.findall(text(page))]
    rest = BLOCK.sub("", text(page))
    blocks += INDENTED.findall(rest)
    lines = [line.strip() for code in blocks for line in code.replace("\\\n", " ").splitlines()]
    lines += [" ".join(span.split()) for _, span in SPAN.findall(INDENTED.sub("\n", rest))]
    return (found[1] or "" for line in lines if (found := COMMAND.match(line)))


@cache
def whole_command() -> Any:
    """`tga` as a tree of commands; Any, for typer brings a click of its own or uses yours."""
    return get_command(app)


def complaint(line: str) -> str | None:
    """Why the command line cannot be understood; the part after a comment sign or a pipe is no part of it."""
    words = shlex.split(re.split(r" [|;&>]| #", line)[0].strip("…"), comments=True)
    command = whole_command()
    while isinstance(command, TyperGroup) and words and words[0] != "…":
        word = words.pop(0)
        if word == "--help":
            return None
        if word not in command.commands:
            return f"there is no `{word}`"
        command = command.commands[word]
    known = command.make_context(
        "tga", [], resilient_parsing=True
    ).command.params  # a command is loaded when it is called
    options = {option for parameter in known for option in (*parameter.opts, *parameter.secondary_opts)}
    unknown = [word for word in words if word.startswith("--") and word.partition("=")[0] not in options | {"--help"}]
    return f"there is no option {unknown[0]}" if unknown else None


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_command_exists_with_its_options(page: Path) -> None:
    wrong = {f"tga {line}": why for line in commands(page) if (why := complaint(line))}
    assert wrong == {}


def test_the_links_are_found() -> None:
    """So that the test before it cannot pass by finding none."""
    found = {kind: sum(len(kind.findall(prose(page))) for page in PAGES) for kind in (LINK, PICTURE)}
    assert found[LINK] > 100
    assert found[PICTURE] > 30
    assert LINK.findall("[![a](b.png)](c.md#d) [e [f]](g.md)") == ["c.md#d", "g.md"]


def test_the_commands_are_found() -> None:
    """So that the test above cannot pass by finding none."""
    assert sum(len(list(commands(page))) for page in PAGES) > 100
    assert complaint("channels list --json") is None
    assert complaint("channels shout @durov") == "there is no `shout`"
    assert complaint("ledger @durov --xml") == "there is no option --xml"


def test_every_target_of_make_exists() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    call = re.compile(r"(?:^|(?<=`))make ([a-z][a-z0-9-]*)", re.MULTILINE)
    named = {(name(page), target) for page in PAGES for target in call.findall(text(page))}
    assert len(named) > 10
    assert sorted(entry for entry in named if entry[1] not in targets) == []


def in_nav(entry: object) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    else:
        assert isinstance(entry, list | dict)
        for part in entry if isinstance(entry, list) else entry.values():
            yield from in_nav(part)


def test_every_page_is_in_the_site() -> None:
    nav = list(in_nav(tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]["nav"]))
    assert sorted(nav) == sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))


@pytest.mark.parametrize(
    "english, russian", [("README.md", "README.ru.md"), ("docs/quickstart.md", "docs/ru/quickstart.md")]
)
def test_the_russian_page_has_the_same_commands(english: str, russian: str) -> None:
    def essence(page: str) -> list[str]:
        code = "\n".join(block for _, _, block in BLOCK.findall((ROOT / page).read_text("utf-8")))
        return [bare for line in code.splitlines() if (bare := re.split(r" +#", line)[0].strip())]

    assert essence(russian) == essence(english)


def test_files_are_written_at_their_paths(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(ROOT)
    generated = importlib.import_module("scripts.generated")
    assert generated.ROOT == ROOT
    generated.write_files({"docs/new/a.md": "слово\n", "b": ""}, tmp_path)
    assert (tmp_path / "docs" / "new" / "a.md").read_text("utf-8") == "слово\n"
    assert (tmp_path / "b").read_text("utf-8") == ""
    assert capsys.readouterr().out == "docs/new/a.md\nb\n"


def test_what_is_made_from_code_is_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)
    made = importlib.import_module("scripts.pages.__main__").contents()
    stale = [path for path, content in made.items() if (ROOT / path).read_text("utf-8") != content]
    assert stale == [], "run scripts/docs"
    assert {"docs/reference/configuration.md", "docs/images/data-flow.svg", "docs/benchmarks.md"} <= made.keys()
