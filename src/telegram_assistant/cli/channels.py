"""`tga channels`, `tga parse`, `tga ledger`, `tga backfill`: what is watched, and how completely."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal
from uuid import UUID

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.access.people import People, system_caller
from telegram_assistant.access.service import Access
from telegram_assistant.cli.session import print_json, with_runtime
from telegram_assistant.config import Settings
from telegram_assistant.domain.access import SYSTEM_TENANT, SYSTEM_USER
from telegram_assistant.domain.channel import SENTENCES, Advice, advise, parse_ref
from telegram_assistant.domain.channel_lists import Entry, as_csv, as_opml, clean_group, read_list
from telegram_assistant.domain.ledger import LedgerState
from telegram_assistant.errors import Fatal
from telegram_assistant.services.channels import Bulk, ChannelActions
from telegram_assistant.stores.postgres.audits import Audit, Audits, Unreadable
from telegram_assistant.stores.postgres.channel_settings import ChannelSettings
from telegram_assistant.stores.postgres.channels import Channel, Channels
from telegram_assistant.stores.postgres.comments import Comments
from telegram_assistant.stores.postgres.media import MediaQueue
from telegram_assistant.stores.postgres.takeouts import AccountTakeouts
from telegram_assistant.stores.postgres.watched_channels import Requests, Watched, WatchedChannels
from telegram_assistant.wiring.runtime import Runtime

WAIT_SECONDS = 20.0
PATIENCE_SECONDS = 60.0
POLL_SECONDS = 0.3
MOST_EXPORTED = 100_000

console = Console()

Reference = Annotated[str, typer.Argument(help="@name, a t.me link, or an id", metavar="CHANNEL")]
References = Annotated[list[str], typer.Argument(help="@names, t.me links, or ids", metavar="CHANNEL...")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def add(
    channels: Annotated[
        list[str] | None, typer.Argument(help="@name, a t.me link, or an id", metavar="[CHANNEL...]")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", help="A list: names and links, OPML, or CSV; - reads it from standard input."),
    ] = None,
) -> None:
    named = [_reference(reference) for reference in channels or ()]
    listed = _listed(file) if file else []
    if not named and not listed:
        raise Fatal("name a channel, or a file with --file: tga channels add @durov")

    async def work(runtime: Runtime) -> None:
        requests = Requests(runtime.database)
        for reference in named:
            await requests.add(UUID(SYSTEM_TENANT), UUID(SYSTEM_USER), reference)
        for reference in named:
            console.print(await _answer(requests, reference), highlight=False, markup=False)
        await _add_list(requests, WatchedChannels(runtime.database), listed)

    with_runtime(work)


def _listed(file: Path) -> list[Entry]:
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8-sig")
        return read_list(text)
    except OSError as exc:
        raise Fatal(f"{file} cannot be read: {exc.strerror or exc}") from exc
    except UnicodeDecodeError as exc:
        raise Fatal(f"{file} is no text in UTF-8: save it so, or paste the list with --file -") from exc
    except ValueError as exc:
        raise Fatal(f"{file}: {exc}") from exc


async def _add_list(requests: Requests, watched: WatchedChannels, entries: list[Entry]) -> None:
    """What is watched or waits already is not asked for again; what is paused is resumed."""
    waiting = {one.reference for one in await requests.open()}
    new = known = 0
    for entry in entries:
        if entry.reference is None:
            console.print(f"{entry.text}: not added, {entry.error}", highlight=False, markup=False)
            continue
        found = await watched.by_ref(UUID(SYSTEM_TENANT), parse_ref(entry.reference))
        if entry.reference in waiting or (found is not None and found.paused_at is None):
            known += 1
        else:
            await requests.add(UUID(SYSTEM_TENANT), UUID(SYSTEM_USER), entry.reference, entry.group or None)
            new += 1
    if entries:
        wrong = len(entries) - new - known
        told = f"{new} noted, {known} known already, {wrong} not understood"
        console.print(f"{told}; they are looked up one by one: tga channels list", highlight=False, markup=False)


def export(
    form: Annotated[Literal["opml", "csv"], typer.Option("--format", help="opml or csv")] = "opml",
) -> None:
    async def work(runtime: Runtime) -> None:
        found = await WatchedChannels(runtime.database).page(UUID(SYSTEM_TENANT), limit=MOST_EXPORTED)
        typer.echo(as_opml(found, "Telegram Assistant") if form == "opml" else as_csv(found), nl=False)

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


def list_(
    as_json: AsJson = False, group: Annotated[str, typer.Option("--group", help="Only what is in this group.")] = ""
) -> None:
    async def work(runtime: Runtime) -> None:
        channels, watched = Channels(runtime.database), WatchedChannels(runtime.database)
        wanted = clean_group(group)
        mine = {one.id: one for one in await watched.page(UUID(SYSTEM_TENANT), limit=MOST_EXPORTED, group=wanted)}
        chosen = [channel for channel in await channels.all() if not wanted or channel.id in mine]
        found = [(channel, await channels.ledger(channel.id)) for channel in chosen]
        wishes = [] if wanted else await Requests(runtime.database).open()
        files = await MediaQueue(runtime.database).troubles()
        takeouts = {channel.id: await _takeout(runtime, channel, ledger) for channel, ledger in found}
        if as_json:
            rows = [
                {
                    "id": channel.id,
                    "username": channel.username,
                    "title": channel.title,
                    "status": channel.status,
                    "paused_at": (own := mine.get(channel.id)) and own.paused_at,
                    "group": own.group if own else "",
                    "priority": channel.priority,
                    "captured": ledger.captured,
                    "unknown": ledger.unknown,
                    "proven_up_to": ledger.proven_up_to,
                    "last_success_at": channel.last_success_at and channel.last_success_at.isoformat(),
                    "failures": channel.failures,
                    "error": channel.last_error,
                    "files": str(files.get(channel.id, "")),
                    "takeout": takeouts[channel.id],
                }
                for channel, ledger in found
            ]
            open_wishes = [{"reference": wish.reference, "error": wish.last_error} for wish in wishes]
            print_json({"channels": rows, "requests": open_wishes})
            return
        table = Table("channel", "title", "group", "state", "posts", "unknown", "proven up to", "last visit", "error")
        for channel, ledger in found:
            troubles = "\n".join(filter(None, (channel.last_error, str(files.get(channel.id, "")))))
            own = mine.get(channel.id)
            # Text, not str: a title may hold brackets, which are markup to the table.
            table.add_row(
                *(Text(channel.shown), Text(channel.title), Text(own.group if own else "")),
                "\n".join(filter(None, (_state(channel, own), takeouts[channel.id]))),
                *(str(ledger.captured), str(ledger.unknown), str(ledger.proven_up_to)),
                *(_ago(channel.last_success_at), Text(troubles)),
            )
        for wish in wishes:
            table.add_row(wish.reference, "", wish.group_name, "requested", "", "", "", "", Text(wish.last_error or ""))
        console.print(table if table.row_count else "No channels yet: tga channels add @name")

    with_runtime(work)


def _state(channel: Channel, own: Watched | None) -> str:
    if own is None or own.paused_at is None:
        return channel.status
    others = "" if channel.status == "paused" else ", read for other tenants"
    return f"paused since {own.paused_at:%Y-%m-%d %H:%M} UTC{others}"


async def _takeout(runtime: Runtime, channel: Channel, ledger: LedgerState) -> str:
    """How a large history is read; until when Telegram makes the account wait for the faster way."""
    at_least = runtime.settings.telegram_takeout_min_messages
    if not at_least or ledger.unknown < at_least:
        return ""
    found = await AccountTakeouts(runtime.database).of_channel(channel.id, runtime.clock())
    if found is None:
        return ""
    return "in a takeout" if found.until is None else f"takeout from {found.until:%Y-%m-%d %H:%M} UTC on"


def remove(channels: References) -> None:
    async def one(runtime: Runtime, channel: str) -> None:
        dropped = await Requests(runtime.database).drop(UUID(SYSTEM_TENANT), _reference(channel))
        known = Channels(runtime.database)
        found = await (lookup if dropped else find)(known, channel)
        if found is not None:
            await WatchedChannels(runtime.database).unwatch(UUID(SYSTEM_TENANT), found.id)
        after = await known.get(found.id) if found is not None else None
        others = "" if after is None or after.status == "removed" else ", but other tenants go on"
        console.print(f"{channel}: not watched any more{others}", highlight=False, markup=False)

    _for_each(channels, one)


def revive(channels: References) -> None:
    async def one(runtime: Runtime, channel: str) -> None:
        known = Channels(runtime.database)
        found = await find(known, channel)
        if found.status == "removed" and found.tenant_id in {None, UUID(SYSTEM_TENANT)}:
            await WatchedChannels(runtime.database).watch(UUID(SYSTEM_TENANT), UUID(SYSTEM_USER), found.id)
        await ChannelSettings(runtime.database).resume(UUID(SYSTEM_TENANT), found.id)
        _need_unpaused(await find(known, channel))
        await known.set_status(found.id, "active", next_visit_at=datetime.now(UTC))
        console.print(f"{found.shown}: is visited again at once", highlight=False, markup=False)

    _for_each(channels, one)


def priority(
    channels: References,
    value: Annotated[int, typer.Argument(min=-1000, max=1000, help="Higher is visited first; 0 is usual.")],
) -> None:
    async def one(runtime: Runtime, channel: str) -> None:
        known = Channels(runtime.database)
        found = await find(known, channel)
        await ChannelSettings(runtime.database).change(UUID(SYSTEM_TENANT), found.id, value)
        after = await known.get(found.id)
        used = after.priority if after is not None else value
        more = "" if used == value else f"; capture uses {used}, which another tenant asks for"
        console.print(f"{found.shown}: priority {value}{more}", highlight=False, markup=False)

    _for_each(channels, one)


def pause(channels: References) -> None:
    _change(channels, Bulk.PAUSE, "paused; what is stored stays")


def resume(channels: References) -> None:
    _change(channels, Bulk.RESUME, "is read again, and what was missed with it")


def group(
    channels: References,
    name: Annotated[str, typer.Argument(help='The group; "" for none.', metavar="GROUP")],
) -> None:
    _change(channels, Bulk.GROUP, f"in the group {clean_group(name)}" if clean_group(name) else "in no group", name)


@dataclass(frozen=True)
class Office:
    """What the actions need, from what a command has."""

    settings: Settings
    database: AsyncEngine
    clock: Callable[[], datetime]
    access: Access


async def _actions(runtime: Runtime) -> ChannelActions:
    """The same as behind the API and the pages, for the operator's tenant."""
    tenants = await People(runtime.database, runtime.clock).tenants()
    tenant = next(one for one in tenants if str(one.id) == SYSTEM_TENANT)
    access = Access(runtime.database, runtime.redis, runtime.clock)
    return ChannelActions(Office(runtime.settings, runtime.database, runtime.clock, access), system_caller(tenant))


def _change(channels: list[str], action: Bulk, done: str, group: str | None = None) -> None:
    async def one(runtime: Runtime, channel: str) -> None:
        known = Channels(runtime.database)
        found = await find(known, channel)
        (changed,) = await (await _actions(runtime)).change_many([found.id], action, group=group)
        if changed.error:
            raise Fatal(f"{found.shown} is not watched by your tenant: tga channels add {channel}")
        goes_on = action is Bulk.PAUSE and (await find(known, channel)).status != "paused"
        others = ", but other tenants go on" if goes_on else ""
        console.print(f"{found.shown}: {done}{others}", highlight=False, markup=False)

    _for_each(channels, one)


def _need_unpaused(channel: Channel) -> None:
    if channel.status == "paused":
        raise Fatal(f"{channel.shown} is paused by all who watch it: tga channels resume")


def _for_each(channels: list[str], work: Callable[[Runtime, str], Awaitable[None]]) -> None:
    """What is wrong with one is said, and the others are done."""

    async def all_of_them(runtime: Runtime) -> None:
        wrong = []
        for channel in channels:
            try:
                await work(runtime, channel)
            except Fatal as exc:
                wrong.append(str(exc))
        if wrong:
            raise Fatal("; ".join(wrong))

    with_runtime(all_of_them)


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
        _need_unpaused(before)
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
        _need_unpaused(found)
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
