"""The command `tga`: everything it can do, in one table. A command's module is imported when the command is called."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from telegram_assistant import __version__
from telegram_assistant.cli.menu import Menu, fill
from telegram_assistant.errors import AssistantError

# Panel, command and the function that does it, what a list shows, further help, example.
COMMANDS = """
# Run
up = roles:up
  Run everything on this machine, starting PostgreSQL and Valkey where none is configured.
  Example: TGA_DATA_DIR=/srv/tga tga up
ingest = roles:ingest
  Run only capture: a second one shares the work of the first, and takes over when it dies.
  Example: INGEST_HEALTH_PORT=8012 tga ingest
worker = roles:worker
  Run only the stages of the pipeline: a second one shares the work of the first, and takes over when it dies.
  Example: WORKER_HEALTH_PORT=8014 tga worker
api = roles:api
  Run only the API and the pages, beside ingest and workers with servers of your own (QDRANT_URL, NEO4J_URL).
  Example: API_PORT=8080 tga api
bot = roles:bot
  Run only the bot: one answers at a time, others take over when it ends.
  Example: TELEGRAM_BOT_TOKEN=123:abc tga bot
mcp = roles:mcp
  Serve search, ask, post and digest to an assistant, over standard input and output (MCP).
  Example: TGA_API_KEY=tga_… tga mcp
simulate = simulate:simulate
  Run a simulated Telegram that speaks MTProto, and print how to connect to it.
  Example: tga simulate --channels 50 --posts 1000 --seed 7 --truth truth.json
link = access:first_link
  Print the one-time link again with which the first admin begins; the one before it ends.
  Example: tga link

# Look
trace = posts:trace
  Show each step of a post, from its capture to the indexes, with its time.
  Example: tga trace https://t.me/durov/42
search = search:search
  Find posts by words and by meaning.
  Example: tga search "нефть -газ has:photo after:7d"
ask = search:ask
  Answer a question from the posts, each sentence with its sources.
  Example: tga ask "Кто выиграл Кубок России?"
trends = trends:trends
  Show what rises against its own past: who told of it first, and how it spread.
  Example: tga trends --now
spend = spend:spend
  Show the tokens and the cost of remote models by day, today's limit, and an estimate of what still waits.
  Examples: tga spend; tga spend --days 30 --json
ledger = channels:ledger
  Show what is known of every message id of a channel: captured, empty, unknown, hidden or not requested.
  Example: tga ledger @durov --json
doctor = doctor:doctor
  Look at engines, schema, clock, disk, permissions, accounts, ports, indexes, and which way leads to Telegram.
  Example: tga doctor --json
version = main:version
  Print the version.

# Manage
login = accounts:login
  Add a Telegram account: scan a QR code with your phone, or get a code. Several accounts share the work.
  Example: tga login --phone +79990000000
parse = channels:parse
  Visit a channel now, and wait for the outcome.
  Example: tga parse @durov
backfill = channels:backfill
  Ask for older history, and watch it arrive. It may be interrupted: the running assistant goes on with it.
  Example: tga backfill @durov --since 2024-01-01
import = importing:import_
  Bring in an export of Telegram Desktop: result.json or messages.html, a folder or a zip, with its files.
  Nothing is doubled, and what is newer here stays. An export proves what it holds, not what is missing.
  Examples: tga import ~/Downloads/ChatExport_2026-11-15; tga import export.zip --dry-run
channels
  The channels that are watched.
channels add = channels:add
  Watch channels.
  Example: tga channels add @durov https://t.me/telegram; tga channels add --file feeds.opml
channels export = channels:export
  Print the channels as OPML or CSV, for a feed reader, a spreadsheet, or another installation.
  Example: tga channels export --format csv
channels followed = follows:followed
  Show the channels that the connected accounts follow, or those of a shared folder; with --add watch them.
  Example: tga channels followed --folder News --add
channels list = channels:list_
  Show every channel with its coverage, its errors, and the wishes that are still open.
  Examples: tga channels list --json; tga channels list --group news
channels remove = channels:remove
  Stop watching channels; what was captured stays.
  Example: tga channels remove @durov @telegram
channels revive = channels:revive
  Try channels again that were given up (state `dead`), or watch removed ones again.
  Example: tga channels revive @durov
channels priority = channels:priority
  Say how important channels are: what is due is visited in this order, and a higher one more often.
  Example: tga channels priority @durov @telegram 10
channels pause = channels:pause
  Do not read channels for a while; what was captured stays, and other tenants go on.
  Example: tga channels pause @durov @telegram
channels resume = channels:resume
  Read paused channels again, at once, with all that was missed.
  Example: tga channels resume @durov @telegram
channels group = channels:group
  Put channels into a group, by which lists can be filtered; "" takes them out.
  Example: tga channels group @durov @telegram news
channels comments = channels:comments
  Read the comments under a channel's posts too, or stop doing so.
  Example: tga channels comments @durov on
channels explain = explain:explain_channel
  Say when a channel is looked at next, and why then.
  Example: tga channels explain @durov --json
accounts
  The Telegram accounts that read.
accounts list = accounts:list_
  Show the accounts, how they are, and until when Telegram makes them wait.
  Example: tga accounts list
accounts proxy = accounts:change_proxy
  Send one account through a proxy of its own, or directly. The settings TELEGRAM_PROXY and PROXY_URL are for all.
  Example: tga accounts proxy 0b9c0b5e-2f0d-5c3a-8d7e-51f3c6a4e922 socks5://127.0.0.1:1080
accounts remove = accounts:remove
  Forget an account and its session. Its channels are read by the others.
  Example: tga accounts remove 0b9c0b5e-2f0d-5c3a-8d7e-51f3c6a4e922
accounts takeout = accounts:ask_takeout
  Ask again for a takeout session that Telegram makes an account wait for: you allowed it on another device.
  Example: tga accounts takeout 0b9c0b5e-2f0d-5c3a-8d7e-51f3c6a4e922
tenants
  Groups of people; each sees what it watches, and nothing else.
tenants add = access:add_tenant
  Make a tenant. `tga users add` lets its first admin in.
  Example: tga tenants add newsroom
tenants list = access:list_tenants
  Show the tenants, and how many people and channels each has.
  Example: tga tenants list
tenants quota = access:set_quota
  Limit the room of a tenant's files and pages. Beyond it no files are downloaded; posts always are.
  Example: tga tenants quota newsroom 5000; tga tenants quota newsroom default
tenants erase = access:erase_tenant
  Remove a tenant from every store: people, keys, private channels, posts, files, indexes, logs.
  Public channels that no other tenant watches go too. This cannot be undone. With the embedded indexes stop `tga up`
  first. Log files and backups are yours to clear.
  Example: tga tenants erase newsroom
users
  The people of a tenant.
users add = access:add_user
  Let a person in: prints a link, good once and for a day, to choose a login and a password.
  Example: tga users add "Anna Petrova" --admin --tenant newsroom
users list = access:list_users
  Show the people of a tenant.
  Example: tga users list --tenant newsroom
users disable = access:disable_user
  Keep a person out: sessions and keys stop at once. The last admin stays.
  Example: tga users disable anna; tga users disable anna --enable lets her in again
users role = access:change_role
  Say whether a user manages the tenant's people. The last admin stays one.
  Example: tga users role anna admin
users link = access:make_link
  Print a link to set a password, the first or another: good once, for a day, in place of the one before.
  Example: tga users link anna
keys
  API keys.
keys create = access:create_key
  Make an API key for a user, and print it, this once. It never has more rights than the user.
  Example: tga keys create anna "nightly export" --days 90
keys list = access:list_keys
  Show the keys of a tenant; the secret itself is not kept.
  Example: tga keys list --tenant newsroom
keys revoke = access:revoke_key
  End a key at once.
  Example: tga keys revoke tga_x7k2m9pq

# Maintain
retag = posts:retag
  Have posts tagged again as they are now; their tags follow in a moment, and the indexes after them.
  Example: tga retag https://t.me/durov/42
audit = audit:audit
  Read a sample of a channel's known ids again, compare them with what is stored, and repair what differs.
  Example: tga audit @durov
backup = backup:backup
  Write database, media and keys into one file, while everything runs. Keep it as safe as a password.
  Example: tga backup tga-2026-11-15.tar
restore = backup:restore
  Bring a backup back, into an empty data folder and an empty database; then: tga reindex.
  Example: TGA_DATA_DIR=/srv/new tga restore tga-2026-11-15.tar
reindex = backup:reindex
  Make the vectors, the graph and the full-text index anew from the database. Posts stay where they are.
  Example: tga reindex
migrate = backup:migrate
  Bring the database to the schema of this version, before its processes start. Starting one does the same.
  Example: DATABASE_URL=postgresql://user:password@host/name tga migrate
dead-letters
  Events that a stage could not handle.
dead-letters list = dead_letters:list_
  Show what waits here, newest first.
  Example: tga dead-letters list --stage tagging
dead-letters show = dead_letters:show
  Show one whole: reason, traceback, trace and content.
  Example: tga dead-letters show 17
dead-letters replay = dead_letters:replay
  Try again, from the stage where it failed and only there.
  Examples: tga dead-letters replay 17 18; tga dead-letters replay --all --stage tagging
dead-letters drop = dead_letters:drop
  Forget for good.
  Example: tga dead-letters drop 17
jobs
  Periodic jobs: digests, trends, interests, storage.
jobs list = jobs:list_
  Show every job: when it is due, and how its last run went.
  Example: tga jobs list --json
jobs run = jobs:run
  Have a job run now, by the process that runs the jobs (tga up or tga api).
  Example: tga jobs run trends
"""

app = typer.Typer(
    name="tga",
    cls=Menu,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Telegram Assistant: captures every post of the channels you watch, provably without a gap.",
    epilog="Settings come from the environment and from a file .env; env.example lists them all.",
)
fill(app, COMMANDS)


def version() -> None:
    typer.echo(__version__)


def _version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


@app.callback()
def options(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Of `tga` itself, before a command."""


def run() -> None:
    """Our own errors become one line and exit code 1; everything else keeps its traceback."""
    try:
        app()
    except AssistantError as exc:
        typer.secho("error: ", fg="red", bold=True, nl=False, err=True)
        typer.echo(exc, err=True)
        sys.exit(1)
