"""The command `tga`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine

import typer
from rich.console import Console

from telegram_assistant import __version__
from telegram_assistant.app import run_up
from telegram_assistant.config import load_settings
from telegram_assistant.errors import AssistantError
from telegram_assistant.log import configure_logging
from telegram_assistant.progress import Steps

app = typer.Typer(
    name="tga",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Telegram Assistant: captures every post of the channels you watch, provably without a gap.",
    epilog="Settings come from the environment and from a file .env; env.example lists them all.",
)


@app.command(epilog="Example: TGA_DATA_DIR=/srv/tga tga up")
def up() -> None:
    """Run everything on this machine, starting PostgreSQL and Valkey where none is configured."""
    settings = load_settings()
    configure_logging(json=settings.log_format == "json", level=settings.log_level)
    run(run_up(settings, Steps(Console())))


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def run(work: Coroutine[object, object, None]) -> None:
    asyncio.run(work)


def main() -> None:
    """Entry point: our own errors become one line and exit code 1, everything else keeps its traceback."""
    try:
        app()
    except AssistantError as exc:
        Console(stderr=True).print(f"[bold red]error:[/] {exc}", highlight=False, soft_wrap=True)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
