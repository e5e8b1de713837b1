"""Reads on through a channel's history, oldest first, or messages by their ids.

Pages that come quickly are saved together: a transaction costs PostgreSQL and us about as much as fifty posts. While
something is saved, the next page is on its way. Of an id Telegram says whether it is there, while a page just leaves it
out. Which messages cannot be parsed is remembered, so that they are looked for once and not at every visit.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from telegram_assistant.domain.ledger import Coverage, page_proves, run_proves
from telegram_assistant.domain.post import MAX_ITEMS
from telegram_assistant.domain.source import PAGE_LIMIT, Name, Page, Source
from telegram_assistant.ingest.saver import Reading, Saved, Saver
from telegram_assistant.log import get_logger
from telegram_assistant.stores.postgres.audits import Unreadable

PAGES_TOGETHER = 10
MOST_UNREADABLE = 5  # that are looked for in one reading: each costs some ten requests, the next reading goes on
WAIT_SECONDS = 0.25  # for the next page; what was read must not get old in memory


@dataclass(frozen=True, slots=True)
class Stretch:
    """Some pages in a row, to be saved as one reading."""

    reading: Reading
    pages: int = 1
    unreadable: tuple[int, ...] = field(default=())
    name: Name | None = None
    pts: int | None = None  # of the channel, when the first page was read

    def __add__(self, later: Stretch) -> Stretch:
        reading = replace(
            later.reading,
            posts=(*self.reading.posts, *later.reading.posts),
            proven=self.reading.proven.union(later.reading.proven),
            looked_at=(self.reading.looked_at or Coverage()).union(later.reading.looked_at or Coverage()),
            newest_id=max(self.reading.newest_id, later.reading.newest_id),
            asked_at=self.reading.asked_at,  # what changed since then may be newer
        )
        unreadable = self.unreadable + later.unreadable
        return Stretch(reading, self.pages + later.pages, unreadable, later.name or self.name, self.pts)


async def read_on(
    source: Source,
    after_id: int,
    *,
    newest_id: int,
    until: int | None = None,
    clock: Callable[[], datetime],
    before_page: Callable[[], Awaitable[None]],
    memory: Memory | None = None,
) -> AsyncGenerator[Stretch, None]:
    """From `after_id` to the end of the history, or until all ids below `until` are proven.

    `newest_id` is what was known before. The caller saves a stretch before it asks for the next. What was read
    before a failure is handed out before it is raised.
    """
    stretch: Stretch | None = None
    ended = False
    known = await remembered(memory, source.channel_id)
    while not ended:
        await before_page()
        asked_at = clock()
        asked = asyncio.ensure_future(source.page_after(after_id, unreadable=known.left_alone))
        try:
            if stretch is not None and (stretch.pages >= PAGES_TOGETHER or not await _comes_soon(asked)):
                yield stretch
                stretch = None
            page = await asked
        except BaseException:
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)
            raise
        read = _read(source, page, after_id, newest_id, asked_at)
        await known.note(page.unreadable, read.reading.spoken_for if source.pages_prove else read.reading.proven)
        if source.pages_prove and _is_doubtful(page) and (until is not None or page.ids[-1] > newest_id):
            above = after_id if after_id in known.left_alone else 0
            read = await _recounted(source, after_id, page, read=read, above=above, before_page=before_page)
        after_id = read.reading.cursor_id if read.reading.cursor_id is not None else after_id
        stretch = read if stretch is None else stretch + read
        ended = page.reached_end or not page.ids or (until is not None and after_id >= until - 1)
        ended = ended or known.new >= MOST_UNREADABLE
    if stretch is not None:
        yield stretch


async def _comes_soon(asked: asyncio.Future[Page]) -> bool:
    await asyncio.wait({asked}, timeout=WAIT_SECONDS)
    return asked.done() and not asked.cancelled() and asked.exception() is None


def _is_doubtful(page: Page) -> bool:
    """It has room left and shows no end: was that all, or was something left out?"""
    return 0 < len(page.ids) < PAGE_LIMIT and not page.reached_end and not page.unreadable


async def _recounted(
    source: Source,
    after_id: int,
    page: Page,
    *,
    read: Stretch,
    above: int,
    before_page: Callable[[], Awaitable[None]],
) -> Stretch:
    """Ask for the messages of a doubtful page from above, and one more: if so many come, none was left out.

    Where ids are far apart, this is the only way to learn that nothing lies between them: there are too many to ask for
    one by one. `above`: an id that would spoil the answer, and what lies below it.
    """
    last, known, requests = page.ids[-1], len(page.ids), 1
    await before_page()
    run = await source.page_before(last + 1, known + 1, above=above)
    if run is None or not run.ids:
        return read
    proven = run_proves(last, run.ids, limit=known + 1).intersection(Coverage.of_spans((after_id + 1, last + 1)))
    if len(run.ids) == known and run.ids[0] > after_id:
        # The one more is missing: there is nothing below, or it was left out. A whole page of nothing tells.
        await before_page()
        below, requests = await source.page_before(run.ids[0], above=above), 2
        if below is not None and not below.ids:
            proven = _shown(Coverage.of_spans((above + 1, last + 1)), page)
    posts = {post.message_id: post for post in (*run.posts, *page.posts) if post.message_id > after_id}
    reading = replace(
        read.reading,
        posts=[posts[number] for number in sorted(posts)],
        proven=read.reading.proven.union(proven.subtract(Coverage.of_ids(run.unreadable))),
    )
    return replace(read, reading=reading, pages=read.pages + requests)


def _shown(ids: Coverage, page: Page) -> Coverage:
    """Without those of which the account is shown nothing: these are not empty, but hidden."""
    return ids.subtract(Coverage.of_spans((1, page.hidden.up_to + 1))) if page.hidden else ids


def _read(source: Source, page: Page, after_id: int, newest_id: int, asked_at: datetime) -> Stretch:
    if not source.pages_prove:
        return _shown_only(source, page, after_id, newest_id, asked_at)
    ids = page.ids
    begin = 0 if page.alone else after_id
    proven = page_proves(begin, ids, limit=PAGE_LIMIT, reached_end=page.reached_end, newest_id=newest_id)
    if page.complete:
        proven = Coverage.of_spans((after_id + 1, ids[-1] + 1))
    last = proven.ranges[-1][1] - 1 if not proven.is_empty else after_id
    reading = Reading(
        channel_id=source.channel_id,
        posts=page.posts,
        # What could not be read stays unknown: the ledger must not call it empty.
        proven=_shown(proven.subtract(Coverage.of_ids(page.unreadable)), page),
        newest_id=max(ids, default=0),
        cursor_id=last,
        reached_end=page.reached_end,
        asked_at=asked_at,
        looked_at=_shown(Coverage.of_spans((after_id + 1, last + 1)).subtract(Coverage.of_ids(page.unreadable)), page),
        hidden=page.hidden,
        protected=page.name is not None and page.name.protected,
    )
    return Stretch(reading, unreadable=page.unreadable, name=page.name, pts=page.pts)


def _shown_only(source: Source, page: Page, after_id: int, newest_id: int, asked_at: datetime) -> Stretch:
    """What such a page leaves out stays unknown; what is stored and was left out is only suspected to be gone."""
    last = max(page.ids, default=after_id)
    seen = max(last, newest_id) if page.reached_end else last
    reading = Reading(
        channel_id=source.channel_id,
        posts=page.posts,
        proven=Coverage.of_ids(post.message_id for post in page.posts),
        newest_id=max(page.ids, default=0),
        cursor_id=last,
        reached_end=page.reached_end,
        asked_at=asked_at,
        looked_at=Coverage.of_spans((after_id + 1, seen + 1)).subtract(Coverage.of_ids(page.unreadable)),
        protected=page.name is not None and page.name.protected,
    )
    return Stretch(reading, unreadable=page.unreadable, name=page.name)


async def between_albums(source: Source, below: int) -> int:
    """The highest id not above `below` that has no album with items on both sides of it."""
    if below == 0:
        return 0
    # By a page and not by ids: whether those may be asked for now decides nothing about a first visit.
    page = await source.page_after(max(0, below - MAX_ITEMS + 1), limit=2 * MAX_ITEMS)
    posts = [*page.posts]
    if any(post.message_id > below and post.grouped_id is not None for post in posts):
        # Where ids are far apart, its first items lie further below than so many ids.
        before = await source.page_before(below + 1, MAX_ITEMS)
        posts += before.posts if before is not None else ()
    groups = {post.message_id: post.grouped_id for post in posts if post.grouped_id is not None}
    while cut := [
        message_id
        for message_id, group in groups.items()
        if message_id <= below and any(other > below and groups[other] == group for other in groups)
    ]:
        below = min(cut) - 1
    return below


log = get_logger(__name__)


class Memory:
    """One per process. `reader` names what parses the messages, with its version."""

    def __init__(self, store: Unreadable, reader: str, *, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._reader = reader
        self._clock = clock

    async def start(self) -> None:
        await self._store.use_reader(self._reader, self._clock())

    async def of(self, channel_id: int) -> ChannelMemory:
        return ChannelMemory(self, channel_id, await self._store.known(channel_id, self._clock()))

    async def write(self, channel_id: int, found: Collection[int], read: Collection[int]) -> None:
        if found:
            log.warning("messages_unreadable", channel_id=channel_id, ids=sorted(found), reader=self._reader)
            await self._store.found(channel_id, found, self._reader, self._clock())
        if read:
            await self._store.forget(channel_id, read)


class ChannelMemory:
    """What is remembered of one channel while it is read."""

    def __init__(self, memory: Memory | None, channel_id: int, known: dict[int, bool]) -> None:
        self._memory = memory
        self._channel_id = channel_id
        self._known = known
        self.new = 0  # found in this reading

    @property
    def left_alone(self) -> frozenset[int]:
        """Ids that are not asked for now."""
        return frozenset(message_id for message_id, alone in self._known.items() if alone)

    async def note(self, unreadable: Iterable[int], told: Coverage) -> None:
        """After an answer: what of it could not be parsed, and of which ids it told."""
        found = set(unreadable) - self.left_alone
        read = {message_id for message_id in self._known if message_id in told and message_id not in found}
        self.new += len(found)
        if self._memory is not None and (found or read):
            await self._memory.write(self._channel_id, found, read)
        self._known.update(dict.fromkeys(found, True))
        for message_id in read:
            del self._known[message_id]


async def remembered(memory: Memory | None, channel_id: int) -> ChannelMemory:
    """None: nothing is remembered beyond this reading."""
    return ChannelMemory(None, channel_id, {}) if memory is None else await memory.of(channel_id)


async def look_at(
    saver: Saver,
    source: Source,
    ids: Sequence[int],
    *,
    clock: Callable[[], datetime],
    before_page: Callable[[], Awaitable[None]],
    memory: Memory | None = None,
) -> tuple[int, Saved]:
    """Read these messages again; of how many something was told, and what that changed."""
    told, changed = 0, Saved()
    known = await remembered(memory, source.channel_id)
    ids = [message_id for message_id in ids if message_id not in known.left_alone]
    for start in range(0, len(ids), source.ids_at_once):
        await before_page()
        asked_at = clock()
        asked = ids[start : start + source.ids_at_once]
        found = await source.by_ids(asked)
        await known.note(set(asked).difference(found), Coverage.of_ids(found))
        reading = Reading(
            channel_id=source.channel_id,
            posts=[post for post in found.values() if post is not None],
            proven=Coverage.of_ids(found),  # an id that could not be understood is not among them
            reached_end=False,
            asked_at=asked_at,
        )
        changed.add(await saver.save(reading))
        told += len(found)
    return told, changed
