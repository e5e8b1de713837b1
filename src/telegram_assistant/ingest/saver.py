"""Saves what was read: posts, versions, counters, media, albums, ledger and cursor in one transaction (SPEC 2, 4.2).

What is to be published goes into the outbox in the same transaction; the relay puts it on the streams after the
commit, in this process or, if it dies, in another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from time import perf_counter
from uuid import UUID, uuid4

from msgspec import to_builtins
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.bus.tracing import TRACES
from telegram_assistant.domain.ledger import Coverage
from telegram_assistant.domain.media_rules import PROTECTED, MediaDecision
from telegram_assistant.domain.post import (
    MAX_ITEMS,
    PARTIAL_AFTER,
    SETTLE_AFTER,
    Counters,
    Media,
    Post,
    album_is_settled,
    post_id,
)
from telegram_assistant.domain.previews import counted, same_words
from telegram_assistant.domain.source import Hidden
from telegram_assistant.errors import Reject, Skip
from telegram_assistant.log import get_logger
from telegram_assistant.metrics import LATE_POSTS
from telegram_assistant.names import ALBUMS_PARSED, POSTS_DELETED, POSTS_PARSED
from telegram_assistant.stores.postgres import audits, outbox, posts, retold_posts
from telegram_assistant.stores.postgres.database import after_deadlock, raw_transaction
from telegram_assistant.stores.postgres.posts import Connection, Stored
from telegram_assistant.stores.postgres.retold_posts import State

AHEAD = timedelta(days=1)  # how far the clock of another producer may be

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Posts of one channel, and which ids the reading proves: what is proven and not among the posts is empty."""

    channel_id: int
    posts: Sequence[Post]
    proven: Coverage
    newest_id: int = 0
    cursor_id: int | None = None  # None: the cursor stays
    reached_end: bool = True  # nothing is above; without this an album at the top may only seem to be over
    asked_at: datetime | None = None  # what we saw change since then is newer than these posts
    told: bool = False  # by another producer: Telegram has not shown it to us, so it says nothing of the newest id
    hidden: Hidden | None = None  # what the group does not show the account that read it
    protected: bool = False  # the channel's owner forbids to save its content
    live: bool = False  # pushed as it happened, maybe long ago: it waited in a queue
    # A page may leave out what is there: what is stored here and not among the posts is only said to be absent.
    looked_at: Coverage | None = None
    edits_dated: bool = True  # False: an export that does not tell when a post was edited
    pts: int | None = None  # with these posts every change of the channel up to this count is stored; None: unsaid

    @property
    def exported(self) -> bool:
        """It comes from an export, which tells what was there once."""
        return any(post.exported_at is not None for post in self.posts)

    @property
    def spoken_for(self) -> Coverage:
        """The ids of which it says something."""
        return self.proven if self.looked_at is None else self.looked_at


@dataclass(slots=True)
class Saved:
    """What a save changed."""

    new: list[Post] = field(default_factory=list)
    edited: list[Post] = field(default_factory=list)
    restored: list[Post] = field(default_factory=list)
    deleted: list[int] = field(default_factory=list)  # message ids
    absent: list[int] = field(default_factory=list)  # ids of what is stored and a page did not show
    late: list[Post] = field(default_factory=list)  # new ones that showed where nothing was known to be
    refined: list[Post] = field(default_factory=list)  # only a page had told of them, now Telegram itself did
    taken_over: list[Post] = field(default_factory=list)  # an export told of them before, and now Telegram did
    counters: int = 0
    albums_open: int = 0  # albums at the newest end that may get further items

    @property
    def changed(self) -> bool:
        return bool(self.new or self.edited or self.restored or self.deleted)

    def add(self, later: Saved) -> None:
        """What a further save changed, to be told together."""
        for name in ("new", "edited", "restored", "deleted", "absent", "late", "refined", "taken_over"):
            getattr(self, name).extend(getattr(later, name))
        self.counters += later.counters
        self.albums_open = later.albums_open


@dataclass(slots=True)
class Changes:
    """A page compared with what is stored."""

    channel_id: int
    saved: Saved = field(default_factory=Saved)
    counters: list[tuple[UUID, Counters]] = field(default_factory=list)
    polls: list[Post] = field(default_factory=list)  # whose votes changed
    pinned: list[UUID] = field(default_factory=list)
    unpinned: list[UUID] = field(default_factory=list)
    groups_left: set[int] = field(default_factory=set)  # albums that lost an item
    glimpsed: list[Post] = field(default_factory=list)  # shown by a page otherwise than Telegram itself told it
    renewed: list[Post] = field(default_factory=list)  # of the refined: their content is another
    grouped: dict[int, int] = field(default_factory=dict)  # by message, its album as it is stored


def compare(reading: Reading, stored: dict[int, Stored]) -> Changes:
    """What is new, edited, restored, deleted, or only counted higher. Pure."""
    changes = Changes(reading.channel_id)
    saved = changes.saved
    for post in reading.posts:
        known = stored.get(post.message_id)
        if known is None:
            saved.new.append(post)
            continue
        if known.deleted:
            saved.restored.append(post)
        _compare_content(post, known, changes)
        counters = post.counters if post.preview is None else counted(known.counters, post.counters)
        if known.counters != counters:
            changes.counters.append((post.id, counters))
        if post.preview is not None:
            continue  # a page tells neither of pins nor exactly of votes
        if post.poll is not None and known.poll != to_builtins(post.poll):
            changes.polls.append(post)
        if known.pinned != post.pinned:
            (changes.pinned if post.pinned else changes.unpinned).append(post.id)
    present = {post.message_id for post in reading.posts}
    missing = [
        message_id
        for message_id, known in stored.items()
        if not known.deleted and message_id not in present and message_id in reading.spoken_for
    ]
    saved.deleted, saved.absent = (missing, []) if reading.looked_at is None else ([], missing)
    found = (stored[message_id].grouped_id for message_id in saved.deleted)
    changes.groups_left |= {grouped_id for grouped_id in found if grouped_id is not None}
    saved.counters = len(changes.counters)
    return changes


def _compare_content(post: Post, known: Stored, changes: Changes) -> None:
    """A page and Telegram itself never say quite the same: between them only words count, and these are looked at."""
    differs = known.content_hash != post.content_hash
    if known.preview and post.exported_at is not None:
        return  # a page told of it, perhaps later than the export was made
    if known.preview == (post.preview is not None):
        if differs:
            changes.saved.edited.append(post)
        return
    if known.grouped_id is not None:
        changes.grouped[post.message_id] = known.grouped_id
    if post.preview is None:
        changes.saved.refined.append(post)
        if known.grouped_id not in {None, post.grouped_id}:
            changes.groups_left.add(changes.grouped[post.message_id])
    elif differs and post.text:
        changes.glimpsed.append(post)
    if differs and post.preview is None:
        changes.renewed.append(post)


class Saver:
    """`post_persistence` (SPEC 4.2): the one way into the tables, for every source."""

    def __init__(
        self,
        database: AsyncEngine,
        *,
        clock: Callable[[], datetime],
        decide_media: Callable[[Media], MediaDecision],
        retention: str = "keep",
        keep_protected: bool = True,
    ) -> None:
        self._database = database
        self._clock = clock
        self._decide_media = decide_media
        self._retention = retention
        self._keep_protected = keep_protected
        self.committed = asyncio.Event()  # wakes the relay of this process

    @after_deadlock
    async def save(self, reading: Reading, *, only_look: bool = False) -> Saved:
        """Raises Skip when the channel is no longer there, Reject for what no other producer can know.

        With `only_look` it tells what it would change, and changes nothing.
        """
        now, began, trace_id = self._clock(), perf_counter(), uuid4().hex
        if reading.told and any(post.posted_at > now + AHEAD for post in reading.posts):
            raise Reject("it is dated more than a day ahead, and a channel is read from its newest date on")
        async with raw_transaction(self._database) as connection:
            channel = await posts.lock_channel(connection, reading.channel_id)
            if channel is None:
                raise Skip(f"channel {reading.channel_id} is not watched any more")
            if channel.paused and not (reading.told or reading.exported):
                raise Skip(f"channel {reading.channel_id} is paused")  # what is missed now is read when it goes on
            stored = await self._stored(connection, reading, channel.coverage)
            changes = compare(reading, stored)
            await self._compare_words(connection, changes)
            await self._leave_newer(connection, reading, changes)
            saved = changes.saved
            await self._weigh_exports(connection, reading, changes, stored)
            known = channel.coverage.intersection(reading.spoken_for)
            saved.late = [] if known.is_empty else [post for post in saved.new if post.message_id in known]
            if reading.exported and self._retention != "keep":
                saved.new = [post for post in saved.new if post.message_id not in known]  # what is gone stays gone
                saved.late = []
            if only_look:
                return saved
            await self._write(connection, changes, now)
            await self._write_media(
                connection, changes, now, trace_id, protected=channel.protected or reading.protected
            )
            coverage = _covered(channel.coverage, reading, saved)
            newest_id = max(
                channel.newest_id,
                reading.newest_id,
                *(0 if reading.told else post.message_id for post in reading.posts),
            )
            # Where the requested history begins no album is cut: what lies below needs no look.
            seen = coverage.add(1, channel.requested_from) if channel.requested_from else coverage
            top = newest_id if reading.reached_end else newest_id + MAX_ITEMS
            whole = await self._albums(connection, changes, seen, top, now)
            mirrored = len(saved.deleted) if self._retention == "mirror" else 0
            await posts.record_reading(
                connection,
                reading.channel_id,
                coverage=coverage,
                newest_id=newest_id,
                cursor_id=reading.cursor_id,
                captured=len(saved.new) - mirrored,
                last_post_at=max((post.posted_at for post in saved.new), default=None),
                parsed_at=now if reading.live and saved.new else None,
                hidden=None if reading.hidden is None else (reading.hidden.account_id, reading.hidden.up_to),
            )
            if reading.pts is not None:
                await audits.record_pts(connection, reading.channel_id, reading.pts)
            # An export kept what was deleted before we could read it.
            past = [post.id for post in saved.late] if reading.exported else []
            if past:
                await posts.mark_deleted(connection, past, now, self._retention)
            again = {post.id for post in (*saved.edited, *saved.restored, *changes.renewed, *saved.taken_over)}
            told = [post.id for post in saved.new if post.id not in past] + list(again)
            gone = [post_id(reading.channel_id, message_id) for message_id in saved.deleted]
            published = [(POSTS_PARSED, told), (ALBUMS_PARSED, whole), (POSTS_DELETED, gone)]
            batches = [(event, ids) for event, ids in published if ids]
            await outbox.remember(connection, batches, trace_id, channel.tenant_id)
        if told or whole or gone:
            self.committed.set()
            about = {"channel_id": reading.channel_id, **{event: len(ids) for event, ids in batches}}
            TRACES.parsed(trace_id, perf_counter() - began, about)
            log.debug("saved", trace_id=trace_id, **about)
        if saved.late and not reading.exported:
            LATE_POSTS.inc(len(saved.late))
            log.info("late_posts", channel_id=reading.channel_id, ids=[post.message_id for post in saved.late[:10]])
        return saved

    async def empty_of(self, channel_id: int, known: Coverage) -> Coverage:
        """Which of these ids hold no post, not even a deleted one."""
        if known.is_empty:
            return known
        async with raw_transaction(self._database) as connection:
            return known.subtract(Coverage.of_ids(await posts.ids_in(connection, channel_id, known)))

    async def delete(self, channel_id: int, message_ids: Collection[int]) -> Saved:
        """A live update said that these are gone."""
        gone = Coverage.of_ids(message_ids)
        return await self.save(Reading(channel_id=channel_id, posts=(), proven=gone, reached_end=False))

    async def _stored(self, connection: Connection, reading: Reading, covered: Coverage) -> dict[int, Stored]:
        ids = covered.intersection(reading.spoken_for)
        if ids.is_empty:
            return {}  # nothing of it was ever read
        return await posts.stored_in(connection, reading.channel_id, ids)

    async def _compare_words(self, connection: Connection, changes: Changes) -> None:
        """Where a page and Telegram itself say different words, the post was edited; an album says them together."""
        saved, looked_at = changes.saved, [*changes.glimpsed, *changes.renewed]
        if not looked_at:
            return
        texts = await retold_posts.texts_of(connection, [post.id for post in looked_at])
        before: dict[int, list[str]] = {}
        now: dict[int, list[str]] = {}
        places = {post.message_id: changes.grouped.get(post.message_id, post.message_id) for post in looked_at}
        for post in looked_at:
            before.setdefault(places[post.message_id], []).append(texts.get(post.message_id, ""))
            now.setdefault(places[post.message_id], []).append(post.text)
        # One reading is of one kind: of a page, or of Telegram itself.
        shown, told = (now, before) if changes.glimpsed else (before, now)
        other = {place for place in before if not same_words(shown[place], told[place])}
        # Of an item without words nothing is known to be edited.
        edited = {
            post.id
            for post in looked_at
            if places[post.message_id] in other and texts.get(post.message_id, "") not in {"", post.text}
        }
        saved.edited += [post for post in looked_at if post.id in edited]
        saved.refined = [post for post in saved.refined if post.id not in edited]
        changes.renewed = [post for post in changes.renewed if post.id not in edited]

    async def _leave_newer(self, connection: Connection, reading: Reading, changes: Changes) -> None:
        """Pages and live updates overtake each other: the old state of a post must not come back."""
        saved = changes.saved
        suspects = {post.id: post for post in (*saved.edited, *saved.restored)}
        if not suspects or not (reading.live or reading.asked_at):
            return
        states = await retold_posts.states_of(connection, suspects)
        newer = {id_ for id_, state in states.items() if _is_newer(state, suspects[id_], reading)}
        if newer:
            saved.edited = [post for post in saved.edited if post.id not in newer]
            saved.restored = [post for post in saved.restored if post.id not in newer]

    async def _weigh_exports(
        self, connection: Connection, reading: Reading, changes: Changes, stored: dict[int, Stored]
    ) -> None:
        """An export and Telegram itself tell of the same post in other ways. Only what reads differently is an edit."""
        saved = changes.saved
        if reading.exported:  # it brings back neither old counts nor what was deleted since
            saved.restored, saved.counters = [], 0
            changes.counters, changes.polls, changes.pinned, changes.unpinned = [], [], [], []
        weighed = {post.id for post in saved.edited if post.exported_at or stored[post.message_id].exported}
        if not weighed:
            return
        states = await retold_posts.states_of(connection, weighed)
        alike = {post.id for post in saved.edited if post.id in weighed and states[post.id].reads_like(post)}
        if not reading.exported:
            saved.taken_over = [post for post in saved.edited if post.id in alike and post.preview is None]
        saved.edited = [
            post
            for post in saved.edited
            if post.id not in alike and (post.exported_at is None or _export_is_newer(states[post.id], post, reading))
        ]

    async def _write(self, connection: Connection, changes: Changes, now: datetime) -> None:
        saved = changes.saved
        if saved.restored:
            await posts.restore(connection, [post.id for post in saved.restored])
        if saved.new:
            await posts.insert_posts(connection, saved.new, now)
        if saved.edited:
            await posts.replace_posts(connection, saved.edited, now)
        if saved.refined:
            await retold_posts.refine_posts(connection, saved.refined, [post.id for post in changes.renewed])
        if changes.counters:
            await posts.update_counters(connection, changes.counters, now)
        if changes.polls:
            await posts.update_details(connection, changes.polls)
        for ids, pinned in ((changes.pinned, True), (changes.unpinned, False)):
            if ids:
                await posts.set_pinned(connection, ids, pinned=pinned)
        if saved.deleted:
            gone = [post_id(changes.channel_id, message_id) for message_id in saved.deleted]
            await posts.mark_deleted(connection, gone, now, self._retention)

    async def _write_media(
        self, connection: Connection, changes: Changes, now: datetime, trace_id: str, *, protected: bool
    ) -> None:
        saved = changes.saved
        changed = [*saved.new, *saved.edited, *changes.renewed]
        if with_media := [post for post in changed if post.media]:
            decisions = self._decisions(with_media, protected=protected)
            await posts.insert_media(connection, with_media, decisions, now, trace_id)
        if saved.taken_over:
            decisions = self._decisions(saved.taken_over, protected=protected)
            await retold_posts.take_over(connection, saved.taken_over, decisions, now)

    def _decisions(self, found: Sequence[Post], *, protected: bool) -> list[list[MediaDecision]]:
        kept = [self._keep_protected or not (protected or post.protected) for post in found]
        return [
            [self._decide_media(media) if keep else PROTECTED for media in post.media]
            for keep, post in zip(kept, found, strict=True)
        ]

    async def _albums(
        self,
        connection: Connection,
        changes: Changes,
        seen: Coverage,
        top: int,
        now: datetime,
    ) -> list[UUID]:
        """Update the albums that this page touched or that were open; the ids of those that are whole now."""
        saved = changes.saved
        touched = {
            post.grouped_id
            for post in (*saved.new, *saved.edited, *saved.restored, *saved.refined, *saved.taken_over)
            if post.grouped_id is not None
        }
        touched |= changes.groups_left
        known = await posts.stored_albums(connection, changes.channel_id, touched)
        waiting = [album for album in known if not album.announced]
        whole = [
            album.id
            for album in waiting
            if album_is_settled(album.message_ids, top, seen, last_posted_at=album.last_posted_at, now=now)
            # What is told now is told again when it grows.
            or (album.known_since is not None and now - album.known_since >= PARTIAL_AFTER)
        ]
        # Those that wait for a hole to be filled are not helped by a visit.
        saved.albums_open = sum(
            now - album.last_posted_at < SETTLE_AFTER for album in waiting if album.id not in set(whole)
        )
        await posts.save_albums(connection, changes.channel_id, known, whole)
        if gone := touched.difference(album.grouped_id for album in known):
            await posts.delete_albums(connection, changes.channel_id, gone)
        return whole


def _covered(before: Coverage, reading: Reading, saved: Saved) -> Coverage:
    """What is known now: what the reading proves, and the ids of stored posts."""
    coverage = before.union(reading.proven)
    beside = [post.message_id for post in saved.new if post.message_id not in coverage]
    return coverage.union(Coverage.of_ids(beside)) if beside else coverage


def _export_is_newer(state: State, post: Post, reading: Reading) -> bool:
    """Whether what an export holds is newer than what is stored: only if it says so, or was made after we looked."""
    if state.deleted or post.exported_at is None:
        return False
    moment = post.edited_at if reading.edits_dated else post.exported_at
    return moment is not None and moment > state.seen_at and (state.edited_at is None or moment > state.edited_at)


def _is_newer(state: State, post: Post, reading: Reading) -> bool:
    """Whether what is stored is newer than what was read."""
    if reading.asked_at is not None:
        return state.seen_at >= reading.asked_at
    # Live updates come in order, but several processes hear the same: only a page can bring a post back.
    return state.deleted or (state.edited_at is not None and (post.edited_at or post.posted_at) < state.edited_at)
