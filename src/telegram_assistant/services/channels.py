"""What people do with channels, for the API and the pages: each checks first that the tenant watches it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from telegram_assistant.domain.access import OLD_HISTORIES_A_DAY, RECENT, Caller, Right, refusal
from telegram_assistant.domain.budgets import Claim, Kind, day_of
from telegram_assistant.domain.channel import ChannelRef, parse_ref
from telegram_assistant.domain.ledger import LedgerState
from telegram_assistant.domain.silence import GapReport, report_gap, zone_of
from telegram_assistant.domain.text import clean_text
from telegram_assistant.ingest.polling import LEARN_FROM, Explained, explain_next
from telegram_assistant.services.problems import Problem, conflict, forbidden, not_found
from telegram_assistant.services.services import Services
from telegram_assistant.stores.postgres.audits import Audit, Audits
from telegram_assistant.stores.postgres.budgets import Budgets, Refused
from telegram_assistant.stores.postgres.channels import Channels
from telegram_assistant.stores.postgres.rhythms import Intervals, Rhythms
from telegram_assistant.stores.postgres.watched_channels import (
    ChannelSettings,
    Known,
    Request,
    Requests,
    Watched,
    WatchedChannels,
)

RHYTHM_WEEKS = 8
LONGEST_REFERENCE = 300  # characters
FIRST_YEAR = 2013  # Telegram is not older
MOST_REQUESTS = 50  # open wishes of a tenant: each costs a question to Telegram, which limits those hardest


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


class ChannelActions:
    """For one caller, with its rights. What its tenant does not watch is a problem 404, even if others watch it."""

    def __init__(self, services: Services, caller: Caller) -> None:
        self._services = services
        self._caller = caller
        self._tenant = caller.tenant_id
        self.watched = WatchedChannels(services.database)
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

    async def visit(self, channel_id: int) -> Watched:
        """As `tga parse`, without waiting for the outcome."""
        await self.get(channel_id)
        self._need(Right.VISIT)
        await self._channels.make_due(self._services.clock(), channel_id)
        return await self.get(channel_id)

    async def backfill(self, channel_id: int, since: datetime | None) -> Watched:
        """Who watches a channel with others reads it for them too: what is older than recent is for admins."""
        found, now = await self.get(channel_id), self._services.clock()
        old = since is None or since < now - RECENT
        self._need(Right.OLD_HISTORY if old else Right.RECENT_HISTORY)
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
        await self._channels.set_status(channel_id, "active", next_visit_at=self._services.clock())
        await self._record("channel_revived", found.shown)
        return await self.get(channel_id)

    async def change(self, channel_id: int, *, priority: int | None, timezone: str | None) -> Watched:
        """For the caller's tenant; what capture uses follows from what all who watch it ask for."""
        found = await self.get(channel_id)
        self._need(Right.CHANGE)
        await ChannelSettings(self._services.database).change(self._tenant, channel_id, priority, timezone)
        await self._record("channel_changed", found.shown, priority=priority, timezone=timezone)
        return await self.get(channel_id)

    async def ledger(self, channel_id: int) -> LedgerState:
        await self.get(channel_id)
        return await self._channels.ledger(channel_id)

    async def audit(self, channel_id: int) -> Audit | None:
        """How far the full audit of it is, or how the last one was."""
        await self.get(channel_id)
        return await Audits(self._services.database).get(channel_id)

    async def explain(self, channel_id: int) -> Explained:
        await self.get(channel_id)
        now = self._services.clock()
        channel = await self._channels.get(channel_id)
        habit = await Rhythms(self._services.database).habit(channel_id, since=now - LEARN_FROM)
        if channel is None or habit is None:
            raise not_found("channel")
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


def reference_of(text: str) -> ChannelRef:
    try:
        return parse_ref(clean_text(text))
    except ValueError as exc:
        raise Problem(422, str(exc)) from exc
