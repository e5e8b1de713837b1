"""`tga channels`, `tga parse`, `tga ledger`, `tga backfill`: what is watched, and how completely."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Annotated
from uuid import UUID

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from telegram_assistant.cli.session import print_json, with_runtime
from telegram_assistant.domain.access import SYSTEM_TENANT, SYSTEM_USER
from telegram_assistant.domain.channel import SENTENCES, Advice, advise, parse_ref
from telegram_assistant.errors import Fatal
from telegram_assistant.stores.postgres.audits import Audit, Audits, Unreadable
from telegram_assistant.stores.postgres.channels import Channel, Channels
from telegram_assistant.stores.postgres.comments import Comments
from telegram_assistant.stores.postgres.media import MediaQueue
from telegram_assistant.stores.postgres.watched_channels import ChannelSettings, Requests, WatchedChannels
from telegram_assistant.wiring.runtime import Runtime

WAIT_SECONDS = 20.0
PATIENCE_SECONDS = 60.0
POLL_SECONDS = 0.3

console = Console()

Reference = Annotated[str, typer.Argument(help="@name, a t.me link, or an id", metavar="CHANNEL")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def add(
    channels: Annotated[list[str], typer.Argument(help="@name, a t.me link, or an id", metavar="CHANNEL...")],
) -> None:
    for reference in channels:
        _reference(reference)

    async def work(runtime: Runtime) -> None:
        requests = Requests(runtime.database)
        for reference in channels:
            await requests.add(UUID(SYSTEM_TENANT), UUID(SYSTEM_USER), _reference(reference))
        for reference in channels:
            console.print(await _answer(requests, _reference(reference)), highlight=False, markup=False)

    with_runtime(work)


async def _answer(requests: Requests, reference: str) -> str:
    """Wait a little for the running ingest to ask Telegram."""
    async with asyncio.timeout(WAIT_SECONDS + 1):
        for _ in range(int(WAIT_SECONDS / POLL_SECONDS)):
            request = await requests.get(UUID(SYSTEM_TENANT), reference)
            if request is None or request.channel_id is not None:
                return f"{reference}: is watched now"
            if request.last_error and request.attempts:
                return _not_added(reference, request.last_error)
            await asyncio.sleep(POLL_SECONDS)
    return f"{reference}: noted; it will be looked up when the assistant runs (make run)"


def _not_added(reference: str, error: str) -> str:
    """A name that does not exist is a mistake to correct, not something to wait for."""
    advice = advise(error)
    if advice is Advice.WAIT:
        return f"{reference}: not yet, {error}; it is tried again later (tga channels list)"
    return f"{reference}: not added, {error}. {SENTENCES[advice]}"


def list_(as_json: AsJson = False) -> None:
    async def work(runtime: Runtime) -> None:
        channels = Channels(runtime.database)
        found = [(channel, await channels.ledger(channel.id)) for channel in await channels.all()]
        wishes = await Requests(runtime.database).open()
        files = await MediaQueue(runtime.database).troubles()
        if as_json:
            rows = [
                {
                    "id": channel.id,
                    "username": channel.username,
                    "title": channel.title,
                    "status": channel.status,
                    "priority": channel.priority,
                    "captured": ledger.captured,
                    "unknown": ledger.unknown,
                    "proven_up_to": ledger.proven_up_to,
                    "last_success_at": channel.last_success_at and channel.last_success_at.isoformat(),
                    "failures": channel.failures,
                    "error": channel.last_error,
                    "files": str(files.get(channel.id, "")),
                }
                for channel, ledger in found
            ]
            open_wishes = [{"reference": wish.reference, "error": wish.last_error} for wish in wishes]
            print_json({"channels": rows, "requests": open_wishes})
            return
        table = Table("channel", "title", "state", "posts", "unknown", "proven up to", "last visit", "error")
        for channel, ledger in found:
            troubles = "\n".join(filter(None, (channel.last_error, str(files.get(channel.id, "")))))
            # Text, not str: a title may hold brackets, which are markup to the table.
            table.add_row(
                *(Text(channel.shown), Text(channel.title), channel.status, str(ledger.captured), str(ledger.unknown)),
                *(str(ledger.proven_up_to), _ago(channel.last_success_at), Text(troubles)),
            )
        for wish in wishes:
            table.add_row(wish.reference, "", "requested", "", "", "", "", Text(wish.last_error or ""))
        console.print(table if table.row_count else "No channels yet: tga channels add @name")

    with_runtime(work)


def remove(channel: Reference) -> None:
    async def work(runtime: Runtime) -> None:
        dropped = await Requests(runtime.database).drop(UUID(SYSTEM_TENANT), _reference(channel))
        channels = Channels(runtime.database)
        found = await (lookup if dropped else find)(channels, channel)
        if found is not None:
            await WatchedChannels(runtime.database).unwatch(UUID(SYSTEM_TENANT), found.id)
        after = await channels.get(found.id) if found is not None else None
        others = "" if after is None or after.status == "removed" else ", but other tenants go on"
        console.print(f"{channel}: not watched any more{others}", highlight=False, markup=False)

    with_runtime(work)


def revive(channel: Reference) -> None:
    async def work(runtime: Runtime) -> None:
        channels = Channels(runtime.database)
        found = await find(channels, channel)
        if found.status == "removed" and found.tenant_id in {None, UUID(SYSTEM_TENANT)}:
            await WatchedChannels(runtime.database).watch(UUID(SYSTEM_TENANT), UUID(SYSTEM_USER), found.id)
        await channels.set_status(found.id, "active", next_visit_at=datetime.now(UTC))
        console.print(f"{found.shown}: is visited again at once", highlight=False, markup=False)

    with_runtime(work)


def priority(
    channel: Reference,
    value: Annotated[int, typer.Argument(min=-1000, max=1000, help="Higher is visited first; 0 is usual.")],
) -> None:
    async def work(runtime: Runtime) -> None:
        channels = Channels(runtime.database)
        found = await find(channels, channel)
        await ChannelSettings(runtime.database).change(UUID(SYSTEM_TENANT), found.id, value)
        after = await channels.get(found.id)
        used = after.priority if after is not None else value
        more = "" if used == value else f"; capture uses {used}, which another tenant asks for"
        console.print(f"{found.shown}: priority {value}{more}", highlight=False, markup=False)

    with_runtime(work)


def comments(channel: Reference, switch: Annotated[str, typer.Argument(help="on or off", metavar="on|off")]) -> None:
    if switch not in {"on", "off"}:
        raise Fatal(f"say on or off, not {switch}")

    async def work(runtime: Runtime) -> None:
        found = await find(Channels(runtime.database), channel)
        await Comments(runtime.database).switch(found.id, on=switch == "on")
        console.print(
            f"{found.shown}: comments are {'read' if switch == 'on' else 'not read'} from now on",
            highlight=False,
            markup=False,
        )

    with_runtime(work)


def parse(channel: Reference) -> None:
    async def work(runtime: Runtime) -> None:
        channels = Channels(runtime.database)
        before = await find(channels, channel)
        if not await channels.make_due(datetime.now(UTC), before.id):
            raise Fatal(f"{before.shown} is not watched any more: tga channels revive {channel}")
        for _ in range(int(PATIENCE_SECONDS / POLL_SECONDS)):
            now = await find(channels, channel)
            if now.last_success_at != before.last_success_at:
                ledger = await channels.ledger(now.id)
                said = f"{now.shown}: visited, {ledger.captured} posts, {ledger.unknown} ids unknown"
                console.print(said, highlight=False, markup=False)
                return
            if now.last_error_at != before.last_error_at:
                raise Fatal(f"{now.shown}: {now.last_error}")
            await asyncio.sleep(POLL_SECONDS)
        if now.next_visit_at is not None and now.next_visit_at > datetime.now(UTC):
            raise Fatal(
                f"{before.shown}: the visit was put off until {now.next_visit_at:%Y-%m-%d %H:%M:%S} UTC, because"
                " Telegram makes the accounts wait: tga accounts list"
            )
        raise Fatal(
            f"{before.shown}: it was not visited within {PATIENCE_SECONDS:.0f} s; is the assistant running (make run)?"
        )

    with_runtime(work)


def ledger(channel: Reference, as_json: AsJson = False) -> None:
    async def work(runtime: Runtime) -> None:
        channels = Channels(runtime.database)
        found = await find(channels, channel)
        state = await channels.ledger(found.id)
        values = {
            "channel": found.shown,
            "newest_id": state.newest_id,
            "captured": state.captured,
            "empty": state.empty,
            "unknown": state.unknown,
            "hidden": state.hidden,
            "hidden_up_to": state.hidden_up_to,
            "not_requested": state.not_requested,
            "requested_from": state.requested_from,
            "proven_up_to": state.proven_up_to,
            "percent": state.percent,
            "holes": [list(hole) for hole in state.gaps][:100],
            "unreadable": sorted(await Unreadable(runtime.database).known(found.id, runtime.clock())),
            "full_audit": _audit_words(await Audits(runtime.database).get(found.id)),
        }
        if as_json:
            print_json(values)
            return
        table = Table("what", "ids", show_header=False)
        for name, value in values.items():
            table.add_row(name.replace("_", " "), Text(str(value)))
        console.print(table)

    with_runtime(work)


def _audit_words(audit: Audit | None) -> str:
    """How far the full audit is."""
    if audit is None or (audit.wanted_at is None and audit.audited_at is None):
        return "none was needed yet"
    if audit.wanted_at is None:
        return f"done {_ago(audit.audited_at)}: {audit.done} posts read again, {audit.found} repaired"
    if audit.began_at is None:
        return f"waits for its turn ({audit.reason})"
    return f"{audit.done} of {audit.total} posts read again, {audit.found} repaired ({audit.reason})"


def backfill(
    channel: Reference,
    since: Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"], help="From this day on (UTC).")] = None,
    everything: Annotated[bool, typer.Option("--all", help="The whole history.")] = False,
) -> None:
    if (since is None) == (not everything):
        raise Fatal("say either --since 2024-01-01 or --all")

    async def work(runtime: Runtime) -> None:
        channels = Channels(runtime.database)
        found = await find(channels, channel)
        if found.requested_from is None:
            raise Fatal(f"{found.shown} was not visited yet: try again after its first visit (tga parse {channel})")
        await channels.ask_history(found.id, None if since is None else since.replace(tzinfo=UTC))
        await _watch_backfill(channels, found)

    with_runtime(work)


async def _watch_backfill(channels: Channels, channel: Channel) -> None:
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task(channel.shown, total=None)
        quiet = 0.0
        last = -1
        while quiet < PATIENCE_SECONDS:
            state = await channels.ledger(channel.id)
            fresh = await channels.get(channel.id)
            total = state.newest_id + 1 - state.requested_from
            progress.update(bar, total=total, completed=total - state.unknown)
            if state.unknown == 0 and (fresh is None or fresh.history_from is None):
                return
            quiet = 0.0 if state.unknown != last else quiet + POLL_SECONDS
            last = state.unknown
            await asyncio.sleep(POLL_SECONDS)
    console.print(
        f"No progress for a minute, {last} ids are still unknown. It goes on while the assistant runs (make run);"
        f" the log says which messages cannot be read, and tga ledger {channel.shown} how far it is.",
        highlight=False,
        markup=False,
    )


async def find(channels: Channels, reference: str) -> Channel:
    """The named channel, or an error that says how to add it."""
    found = await lookup(channels, reference)
    if found is None:
        raise Fatal(f"{reference} is not watched: add it with tga channels add {reference}")
    return found


async def lookup(channels: Channels, reference: str) -> Channel | None:
    ref = parse_ref(_reference(reference))
    if ref.username is not None:
        return await channels.by_username(ref.username)
    return None if ref.channel_id is None else await channels.get(ref.channel_id)


def _reference(text: str) -> str:
    try:
        return str(parse_ref(text))
    except ValueError as exc:
        raise Fatal(str(exc)) from exc


def _ago(moment: datetime | None) -> str:
    if moment is None:
        return "never"
    seconds = int((datetime.now(UTC) - moment).total_seconds())
    for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {name} ago"
    return f"{seconds} s ago"
