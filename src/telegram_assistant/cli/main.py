"""The command `tga`."""

from __future__ import annotations

import asyncio
import sys

import typer
from rich.console import Console
from rich.markup import escape

from telegram_assistant import __version__
from telegram_assistant.cli import access, accounts, channels, dead_letters, jobs
from telegram_assistant.cli.audit import audit
from telegram_assistant.cli.backup import backup, migrate, restore
from telegram_assistant.cli.doctor import doctor
from telegram_assistant.cli.explain import explain_channel
from telegram_assistant.cli.mcp import mcp
from telegram_assistant.cli.reindex import reindex
from telegram_assistant.cli.retag import retag
from telegram_assistant.cli.search import WITH_MINUS, ask, search
from telegram_assistant.cli.simulate import simulate
from telegram_assistant.cli.spend import spend
from telegram_assistant.cli.trace import trace
from telegram_assistant.cli.trends import trends
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
    _run("up")


@app.command(epilog="Example: INGEST_HEALTH_PORT=8012 tga ingest")
def ingest() -> None:
    """Run only capture: a second one shares the work of the first, and takes over when it dies."""
    _run("ingest")


@app.command(epilog="Example: WORKER_HEALTH_PORT=8014 tga worker")
def worker() -> None:
    """Run only the stages of the pipeline: a second one shares the work of the first, and takes over when it dies."""
    _run("worker")


@app.command(epilog="Example: API_PORT=8080 tga api")
def api() -> None:
    """Run only the API and the pages, beside ingest and workers with servers of your own (QDRANT_URL, NEO4J_URL)."""
    _run("api")


@app.command(epilog="Example: TELEGRAM_BOT_TOKEN=123:abc tga bot")
def bot() -> None:
    """Run only the bot: one answers at a time, others take over when it ends."""
    _run("bot")


def _run(role: str) -> None:
    from telegram_assistant.wiring.roles import run_role  # noqa: PLC0415 - half of all libraries, which most commands do without

    settings = load_settings()
    configure_logging(json=settings.log_format == "json", level=settings.log_level)
    asyncio.run(run_role(role, settings, Steps(Console())))


channels.app.command("explain", epilog="Example: tga channels explain @durov --json")(explain_channel)
app.add_typer(channels.app, name="channels")
app.add_typer(accounts.app, name="accounts")
app.add_typer(dead_letters.app, name="dead-letters")
app.add_typer(jobs.app, name="jobs")
app.add_typer(access.tenants, name="tenants")
app.add_typer(access.users, name="users")
app.add_typer(access.keys, name="keys")
app.command(epilog="Example: tga trace https://t.me/durov/42")(trace)
app.command(epilog="Example: tga retag https://t.me/durov/42")(retag)
app.command(context_settings=WITH_MINUS, epilog='Example: tga search "нефть -газ has:photo after:7d"')(search)
app.command(epilog='Example: tga ask "Кто выиграл Кубок России?"')(ask)
app.command(epilog="Example: tga trends --now")(trends)
app.command(epilog="Examples: tga spend; tga spend --days 30 --json")(spend)
app.command(epilog="Example: tga login --phone +79990000000")(accounts.login)
app.command(epilog="Example: tga parse @durov")(channels.parse)
app.command(epilog="Example: tga ledger @durov --json")(channels.ledger)
app.command(epilog="Example: tga audit @durov")(audit)
app.command(epilog="Example: tga backfill @durov --since 2024-01-01")(channels.backfill)
app.command(epilog="Example: TGA_API_KEY=tga_… tga mcp")(mcp)
app.command(epilog="Example: tga simulate --channels 50 --posts 1000 --seed 7 --truth truth.json")(simulate)


app.command(epilog="Example: tga backup tga-2026-11-15.tar")(backup)
app.command(epilog="Example: TGA_DATA_DIR=/srv/new tga restore tga-2026-11-15.tar")(restore)
app.command(epilog="Example: tga reindex")(reindex)
app.command(epilog="Example: DATABASE_URL=postgresql://user:password@host/name tga migrate")(migrate)
app.command(epilog="Example: tga doctor --json")(doctor)


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def run() -> None:
    """Our own errors become one line and exit code 1; everything else keeps its traceback."""
    try:
        app()
    except AssistantError as exc:
        Console(stderr=True).print(f"[bold red]error:[/] {escape(str(exc))}", highlight=False, soft_wrap=True)
        sys.exit(1)
