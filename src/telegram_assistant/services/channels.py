"""What people do with channels, for the API and the pages: each checks first that the tenant watches it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.access.service import Access
from telegram_assistant.config import Settings
from telegram_assistant.domain.access import OLD_HISTORIES_A_DAY, RECENT, Caller, Right, refusal
from telegram_assistant.domain.budgets import Claim, Kind, day_of
from telegram_assistant.domain.channel import ChannelRef, parse_ref
from telegram_assistant.domain.channel_lists import Entry, clean_group, read_list
from telegram_assistant.domain.ledger import LedgerState
from telegram_assistant.domain.silence import GapReport, report_gap, zone_of
from telegram_assistant.domain.text import clean_text
from telegram_assistant.ingest.polling import LEARN_FROM, Explained, explain_next
from telegram_assistant.services.problems import Problem, conflict, forbidden, not_found
from telegram_assistant.stores.postgres.audits import Audit, Audits
from telegram_assistant.stores.postgres.budgets import Budgets, Refused
from telegram_assistant.stores.postgres.channel_settings import ChannelSettings
from telegram_assistant.stores.postgres.channels import Channels
from telegram_assistant.stores.postgres.rhythms import Intervals, Rhythms
from telegram_assistant.stores.postgres.takeouts import AccountTakeouts, Takeout
from telegram_assistant.stores.postgres.topics import ForumTopic, ForumTopics
from telegram_assistant.stores.postgres.watched_channels import (
    Known,
    Request,
    Requests,
    Watched,
    WatchedChannels,
)
from telegram_assistant.stores.postgres.witnesses import Disagreement, Witnesses

RHYTHM_WEEKS = 8
MOST_LISTED = 100_000
MOST_DISAGREEMENTS = 100
LONGEST_REFERENCE = 300  # characters
FIRST_YEAR = 2013  # Telegram is not older
MOST_REQUESTS = 1_000  # open wishes of a tenant: each costs a question to Telegram, and tenants take turns


@dataclass(frozen=True, slots=True)
class Rhythm:
    """When a channel posts, and whether its silence is unusual."""

    since: datetime
    posts: list[list[int]]
    gap: GapReport | None  # None: it never posted


@dataclass(frozen=True, slots=True)
class Preview:
    """What is known of the typed name."""

    reference: str
    watched: Watched | None
    request: Request | None
    known: Known | None


class Outcome(StrEnum):
    """What became of an entry of a list."""

    ADDED = "added"
    WAITING = "waiting"  # it was asked for before
    WATCHED = "watched"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Added:
    """An entry of a list, and what became of it."""

    entry: Entry
    outcome: Outcome


class Bulk(StrEnum):
    """What can be done with many channels at once."""

    REMOVE = "remove"
    REVIVE = "revive"
    PRIORITY = "priority"
    PAUSE = "pause"
    RESUME = "resume"
    GROUP = "group"


@dataclass(frozen=True, slots=True)
class Changed:
    """A channel of many, and why it was not changed."""

    channel_id: int
    error: str | None = None


@dataclass(frozen=True, slots=True)
class KnownChannels:
    """What a tenant watches, and what it has asked for."""

    ids: set[int]
    references: set[str]


class Office(Protocol):
    """What is needed of `Services`; the command line has these too."""

    @property
    def settings(self) -> Settings: ...
    @property
    def database(self) -> AsyncEngine: ...
    @property
    def clock(self) -> Callable[[], datetime]: ...
    @property
    def access(self) -> Access: ...


class ChannelActions:
    """For one caller, with its rights. What its tenant does not watch is a problem 404, even if others watch it."""

    def __init__(self, services: Office, caller: Caller) -> None:
        self._services = services
        self._caller = caller
        self._tenant = caller.tenant_id
        self.watched = WatchedChannels(services.database)
        self._own = ChannelSettings(services.database)
        self._channels = Channels(services.database)

    async def get(self, channel_id: int) -> Watched:
        found = await self.watched.get(self._tenant, channel_id)
        if found is None:
            raise not_found("channel")
        return found

    async def preview(self, text: str) -> Preview:
        ref = reference_of(text)
        reference = str(ref)
        watched = await self.watched.by_ref(self._tenant, ref)
        request = await self.watched.request(self._tenant, reference=reference)
        known = await self.watched.public(ref.username) if ref.username else None
        return Preview(reference, watched, request, known)

    def _need(self, right: Right) -> None:
        if not self._caller.may(right):
            raise forbidden(refusal(right))

    async def add(self, text: str) -> Request:
        """As `tga channels add`: a wish, which capture fulfils."""
        self._need(Right.ADD)
        reference = str(reference_of(text))
        if len(await self.watched.requests(self._tenant, limit=MOST_REQUESTS)) >= MOST_REQUESTS:
            raise conflict(f"{MOST_REQUESTS} channels are waiting to be found already: remove some of them first")
        await Requests(self._services.database).add(self._tenant, self._caller.user_id, reference)
        made = await self.watched.request(self._tenant, reference=reference)
        if made is None:  # another user of the tenant dropped it in this moment
            raise conflict("It was removed at the same time: add it again")
        await self._record("channel_added", reference)
        return made

    async def add_list(self, text: str) -> list[Added]:
        """A pasted list, OPML or CSV: each entry has its own outcome, and what is known is not asked for again."""
        self._need(Right.ADD)
        try:
            entries = read_list(text)
        except ValueError as exc:
            raise Problem(422, str(exc)) from exc
        return await self.add_entries(entries)

    async def add_entries(self, entries: Sequence[Entry]) -> list[Added]:
        self._need(Right.ADD)
        open_ = {one.reference for one in await self.watched.requests(self._tenant, limit=MOST_REQUESTS)}
        done = [Added(entry, await self._outcome(entry, open_)) for entry in entries]
        new = [one.entry for one in done if one.outcome is Outcome.ADDED]
        if len(new) + len(open_) > MOST_REQUESTS:
            raise conflict(f"At most {MOST_REQUESTS:,} channels may wait to be found, and {len(open_):,} do already")
        requests = Requests(self._services.database)
        for entry in new:
            await requests.add(self._tenant, self._caller.user_id, entry.reference or "", entry.group or None)
        if new:
            await self._record("channels_added", f"{len(new)} channels", first=new[0].reference)
        return done

    async def known(self) -> KnownChannels:
        """What needs no tick: it is watched, or asked for."""
        found = await self.watched.page(self._tenant, limit=MOST_LISTED)
        wishes = await self.watched.requests(self._tenant, limit=MOST_REQUESTS)
        return KnownChannels({one.id for one in found}, {one.reference for one in wishes})

    async def _outcome(self, entry: Entry, waiting: Collection[str]) -> Outcome:
        if entry.reference is None:
            return Outcome.REFUSED
        if entry.reference in waiting:
            return Outcome.WAITING
        known = await self.watched.by_ref(self._tenant, parse_ref(entry.reference))
        return Outcome.WATCHED if known is not None and known.paused_at is None else Outcome.ADDED

    async def visit(self, channel_id: int) -> Watched:
        """As `tga parse`, without waiting for the outcome."""
        _need_unpaused(await self.get(channel_id))
        self._need(Right.VISIT)
        await self._channels.make_due(self._services.clock(), channel_id)
        return await self.get(channel_id)

    async def backfill(self, channel_id: int, since: datetime | None) -> Watched:
        """Who watches a channel with others reads it for them too: what is older than recent is for admins."""
        found, now = await self.get(channel_id), self._services.clock()
        old = since is None or since < now - RECENT
        self._need(Right.OLD_HISTORY if old else Right.RECENT_HISTORY)
        _need_unpaused(found)
        if found.requested_from is None:
            raise conflict("It was not visited yet: ask for its history after the first visit")
        if old:
            await self._count_history(now)
        await self._channels.ask_history(channel_id, min(since, now) if since else None)
        await self._record("history_requested", found.shown, since=since.isoformat() if since else "all")
        return await self.get(channel_id)

    async def _count_history(self, now: datetime) -> None:
        limit = OLD_HISTORIES_A_DAY
        claim = Claim(owner=str(self._tenant), kind=Kind.HISTORY, period=day_of(now), limit=limit)
        if isinstance(await Budgets(self._services.database).claim([claim], now), Refused):
            raise conflict(f"Your tenant asked for {limit} histories today, which is the limit: go on tomorrow")

    async def drop_request(self, number: int) -> bool:
        """Take a wish back."""
        found = await self.watched.request(self._tenant, number=number)
        if found is None or found.channel_id is not None:
            return False
        if found.user_id != self._caller.user_id:
            self._need(Right.DROP_REQUEST)
        return await self.watched.drop_request(self._tenant, number)

    async def remove(self, channel_id: int) -> None:
        found = await self.get(channel_id)
        self._need(Right.REMOVE)
        await self.watched.unwatch(self._tenant, channel_id)
        await self._record("channel_removed", found.shown)

    async def revive(self, channel_id: int) -> Watched:
        found = await self.get(channel_id)
        self._need(Right.REVIVE)
        await self._own.resume(self._tenant, channel_id)
        await self._channels.set_status(channel_id, "active", next_visit_at=self._services.clock())
        await self._record("channel_revived", found.shown)
        return await self.get(channel_id)

    async def pause(self, channel_id: int) -> Watched:
        """For the caller's tenant; it is read as long as one tenant that watches it has not paused it."""
        found = await self.get(channel_id)
        self._need(Right.CHANGE)
        await self._own.pause(self._tenant, channel_id)
        await self._record("channel_paused", found.shown)
        return await self.get(channel_id)

    async def resume(self, channel_id: int) -> Watched:
        """It is due at once; what was missed is read as after any absence."""
        found = await self.get(channel_id)
        self._need(Right.CHANGE)
        await self._own.resume(self._tenant, channel_id)
        await self._record("channel_resumed", found.shown)
        return await self.get(channel_id)

    async def change(
        self, channel_id: int, *, priority: int | None = None, timezone: str | None = None, group: str | None = None
    ) -> Watched:
        """For the caller's tenant; what capture uses follows from what all who watch it ask for."""
        found = await self.get(channel_id)
        self._need(Right.CHANGE)
        group = None if group is None else clean_group(group)
        await self._own.change(self._tenant, channel_id, priority, timezone, group)
        await self._record("channel_changed", found.shown, priority=priority, timezone=timezone, group=group)
        return await self.get(channel_id)

    async def change_many(
        self, channel_ids: Sequence[int], action: Bulk, *, priority: int | None = None, group: str | None = None
    ) -> list[Changed]:
        """The same for many at once; each has its own outcome."""
        if action is Bulk.PRIORITY and priority is None:
            raise Problem(422, "Say which priority: a number from -1000 to 1000")
        if action is Bulk.GROUP and group is None:
            raise Problem(422, "Say which group: a name, or an empty text for none")
        work: dict[Bulk, Callable[[int], Awaitable[object]]] = {
            Bulk.REMOVE: self.remove,
            Bulk.REVIVE: self.revive,
            Bulk.PAUSE: self.pause,
            Bulk.RESUME: self.resume,
            Bulk.PRIORITY: lambda one: self.change(one, priority=priority),
            Bulk.GROUP: lambda one: self.change(one, group=group),
        }
        done = []
        for channel_id in dict.fromkeys(channel_ids):
            error = None
            try:
                await work[action](channel_id)
            except Problem as exc:
                error = exc.detail
            done.append(Changed(channel_id, error))
        return done

    async def ledger(self, channel_id: int) -> LedgerState:
        await self.get(channel_id)
        return await self._channels.ledger(channel_id)

    async def topics(self, channel_id: int) -> list[ForumTopic]:
        """Of a group that is a forum, or of a channel whose discussion group is one."""
        await self.get(channel_id)
        return await ForumTopics(self._services.database).of_channel(self._tenant, channel_id)

    async def takeout(self, channel: Watched) -> Takeout | None:
        """Of an account that reads this large history: it is open, or Telegram makes the account wait for it."""
        at_least = self._services.settings.telegram_takeout_min_messages
        if not at_least or channel.unknown < at_least:
            return None
        return await AccountTakeouts(self._services.database).of_channel(channel.id, self._services.clock())

    async def audit(self, channel_id: int) -> Audit | None:
        """How far the full audit of it is, or how the last one was."""
        await self.get(channel_id)
        return await Audits(self._services.database).get(channel_id)

    async def disagreements(self, channel_id: int) -> list[Disagreement]:
        """Posts of which an account and the public preview tell different things."""
        await self.get(channel_id)
        return await Witnesses(self._services.database).of_channel(self._tenant, channel_id, limit=MOST_DISAGREEMENTS)

    async def mark_seen(self, channel_id: int, number: int) -> None:
        """The difference stays, and is not called new any more."""
        found = await self.get(channel_id)
        now, witnesses = self._services.clock(), Witnesses(self._services.database)
        if not await witnesses.mark_seen(self._tenant, channel_id, number, now):
            raise not_found("difference")
        await self._record("difference_seen", found.shown, number=number)

    async def explain(self, channel_id: int) -> Explained:
        found = await self.get(channel_id)
        now = self._services.clock()
        channel = await self._channels.get(channel_id)
        habit = await Rhythms(self._services.database).habit(channel_id, since=now - LEARN_FROM)
        if channel is None or habit is None:
            raise not_found("channel")
        if found.paused_at is not None:
            channel = replace(channel, status="paused", next_visit_at=None)
        return explain_next(channel, habit, self._services.settings, now)

    async def rhythm(self, channel: Watched) -> Rhythm:
        now = self._services.clock()
        since = now - timedelta(weeks=RHYTHM_WEEKS)
        posts = await self.watched.by_hour(
            self._tenant, channel.id, timezone=zone_of(channel.timezone).key, since=since
        )
        if channel.last_post_at is None:
            return Rhythm(since, posts, None)
        stats = (await Intervals(self._services.database).kept([channel.id])).get(channel.id)
        gap = report_gap(
            now,
            channel.last_post_at,
            stats.p95 if stats else None,
            zone=zone_of(channel.timezone),
            adaptive=self._services.settings.feature_adaptive_thresholds_enabled,
        )
        return Rhythm(since, posts, gap)

    async def _record(self, action: str, target: str, **details: object) -> None:
        given = {name: value for name, value in details.items() if value is not None}
        await self._services.access.record(self._caller, action, target, given)


def _need_unpaused(channel: Watched) -> None:
    if channel.paused_at is not None:
        raise conflict("It is paused: resume it first")


def reference_of(text: str) -> ChannelRef:
    try:
        return parse_ref(clean_text(text))
    except ValueError as exc:
        raise Problem(422, str(exc)) from exc
