"""`tga doctor`: what is wrong with this installation, and what to do about it."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from telegram_assistant.cli.session import print_json
from telegram_assistant.config import load_settings
from telegram_assistant.doctor import Finding, Level, fail
from telegram_assistant.errors import Fatal
from telegram_assistant.log import configure_logging

console = Console()
COLOURS = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "bold red"}


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of lines.")] = False) -> None:
    found = examine()
    if as_json:
        print_json(found)
    else:
        for finding in found:
            _show(finding)
    if any(finding.level is Level.FAIL for finding in found):
        raise typer.Exit(1)


def examine() -> list[Finding]:
    try:
        settings = load_settings()
    except Fatal as exc:
        return [fail("settings", str(exc), "correct the environment or .env; env.example explains every variable")]
    configure_logging(json=settings.log_format == "json", level="ERROR")
    from telegram_assistant.doctor.examination import examine_all  # noqa: PLC0415 - half of all libraries

    return asyncio.run(examine_all(settings))


def _show(finding: Finding) -> None:
    colour = COLOURS[finding.level]
    console.print(
        f"[{colour}]{finding.level:4}[/]  {finding.name}: {escape(finding.what)}", highlight=False, soft_wrap=True
    )
    if finding.todo:
        console.print(f"      → {escape(finding.todo)}", highlight=False, soft_wrap=True)
