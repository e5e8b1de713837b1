"""Search, for command, API, pages and bot. A page ends in a cursor that stays right when posts come and go."""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cached_property
from hashlib import blake2b
from uuid import UUID

import msgspec
from msgspec import structs

from telegram_assistant.domain.query import Query, Trouble, is_writable, parse_query
from telegram_assistant.domain.results import Counted, Facet, Facets, Hit, Offer, Results, Shown, Sort, Teller
from telegram_assistant.errors import Reject, Retry
from telegram_assistant.index.vectors import Where
from telegram_assistant.language.clean import has_cyrillic
from telegram_assistant.language.documents import Candidate
from telegram_assistant.language.lexemes import Lexicon
from telegram_assistant.language.plan import Plan
from telegram_assistant.language.recency import half_life, without_time
from telegram_assistant.log import get_logger
from telegram_assistant.search.offers import insisted, offers
from telegram_assistant.search.planning import Meaning, Planned, Planner, but_not, where_of
from telegram_assistant.search.ranking import Scale, Story, fold_stories, in_time, order, rank, scale_of
from telegram_assistant.search.snippets import Marker, snippet
from telegram_assistant.stores.postgres.search import SearchDocuments
from telegram_assistant.stores.postgres.visible_posts import VisiblePosts

WINDOW = 1_000  # candidates that are ranked
MOST_HITS = 100
MOST_TELLERS = 50
MOST_FACETS = 20
MANY_CHANNELS = 50
LATER = 2  # times as many near ones on later pages
LONGEST = 1_500
WRONG = "this cursor is not one of this search: begin without it"

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Found:
    """Everything that fits, in its order; `end`: where this window of candidates ends and another begins.

    `by_words`: the same without what is only near in meaning. It is what is counted: which others are near enough
    depends on all that is asked for, and so would the numbers.
    """

    stories: list[Story]
    by_words: list[Story]
    more: bool = False  # the window is full
    end: tuple[datetime, UUID] | None = None
    scale: Scale | None = None
    without_meaning: str = ""

    @property
    def counted(self) -> Counted:
        known = {one.post_id for story in self.by_words for one in story.candidates}
        near = sum(known.isdisjoint(one.post_id for one in story.candidates) for story in self.stories)
        return Counted(len(self.by_words), near, self.more)


@dataclass(frozen=True)
class Search:
    """Finds posts for a tenant. `owners`: whose vector indexes there are for one, its own last."""

    documents: SearchDocuments
    posts: VisiblePosts
    lexicon: Lexicon
    clock: Callable[[], datetime]
    owners: Callable[[UUID], Sequence[UUID]]
    meaning: Meaning | None = None
    why_without: str = ""

    @cached_property
    def _planner(self) -> Planner:
        return Planner(self.documents, self.posts, self.lexicon)

    async def search(
        self,
        tenant_id: UUID,
        text: str,
        *,
        limit: int = 20,
        cursor: str | None = None,
        sort: Sort = Sort.BEST,
        zone: tzinfo | None = None,
        by_story: bool = True,
    ) -> Results:
        """`zone`: where dates are meant; `by_story`: each story once, else all posts of it.

        Raises Reject for a cursor of another search; no query is too odd for it.
        """
        now = self.clock()
        asked = digest_of(tenant_id, text, sort, by_story)
        at = read_cursor(cursor, asked) if cursor else Cursor(asked, now)
        here = at.as_of.astimezone(zone or UTC)
        query = parse_query(text, now=here)
        if any(note.trouble is Trouble.NO_WORDS for note in query.notes):
            return Results(notes=query.notes)
        if not query.words:
            sort = Sort.NEWEST
        fresh = half_life(query) if sort is Sort.BEST else None
        planned = await self._planner.plan(tenant_id, without_time(query) if fresh else query, other_spellings=True)
        plan, query = planned.plan, planned.query
        # On the first page everything counts: clocks of other machines may differ.
        as_of = at.as_of if cursor else None
        if sort is Sort.NEWEST:
            all_words = replace(plan, ways=plan.ways[:1])
            found = await self._newest(all_words, at.base, as_of, by_story=by_story)
        else:
            about = (at.as_of, fresh) if fresh else None
            found = await self._best(tenant_id, planned, as_of, at.scale, about=about, by_story=by_story)
        rest = [story for story in found.stories if at.last is None or order(story.best) > at.last]
        page = rest[: max(1, min(limit, MOST_HITS))]
        marker = await asyncio.to_thread(Marker.for_query, query, self.lexicon)
        hits, facets = await asyncio.gather(
            self._hits(tenant_id, page, Plan(channels=planned.visible, deleted=plan.deleted), marker),
            self._facets(tenant_id, query, found.by_words if cursor is None else ()),
        )
        at = at if cursor else structs.replace(at, counted=found.counted)
        return Results(
            hits=hits,
            counted=at.counted,
            related_from=_first_related(page, at),
            facets=facets,
            cursor=_next(at, found, page, more=len(rest) > len(page)),
            notes=(*query.notes, *planned.notes),
            without_meaning=found.without_meaning,
            offers=() if hits or cursor else await self._offers(tenant_id, text, planned, here, sort),
        )

    async def _offers(
        self, tenant_id: UUID, text: str, planned: Planned, now: datetime, sort: Sort
    ) -> tuple[Offer, ...]:
        async def count(other: str) -> Counted:
            query = parse_query(other, now=now)
            best = sort is Sort.BEST and query.words
            query = without_time(query) if best and half_life(query) else query
            plan = (await self._planner.plan(tenant_id, query, other_spellings=True)).plan
            found = await self._newest(plan if best else replace(plan, ways=plan.ways[:1]), None, None, by_story=True)
            return found.counted

        words = list(insisted(planned.query))
        respelt = await self._planner.respelt(words, planned.visible) if words else {}
        return await offers(text, count, respelt)

    async def similar(self, tenant_id: UUID, post_id: UUID, *, limit: int = 10) -> tuple[Hit, ...]:
        """Posts near in meaning to one that the tenant sees. Raises Retry when the vector index is away."""
        shown = (await self.posts.posts(tenant_id, [post_id])).get(post_id)
        if shown is None:
            return ()
        if self.meaning is None:
            raise Retry(self.why_without or "there is no vector index here")
        plan = Plan(channels=await self.posts.channels(tenant_id))
        near = await self.meaning.near_post(self.owners(tenant_id), shown.owner, post_id, Where(channels=plan.channels))
        known = await self.documents.fitting(plan, [*near, post_id])
        own = next((one for one in known if one.post_id == post_id), None)
        others = [one for one in known if own is None or not _belong_together(one, own)]
        marker = Marker.for_query(Query(), self.lexicon)
        return await self._hits(tenant_id, fold_stories(rank(others, (), near))[:limit], plan, marker)

    async def _newest(
        self, plan: Plan, after: tuple[datetime, UUID] | None, as_of: datetime | None, *, by_story: bool
    ) -> _Found:
        """Posts that fit one way of the plan, in the order of time."""
        if not plan.channels:
            return _Found([], [])
        candidates = await self.documents.newest(plan, limit=WINDOW, after=after, as_of=as_of)
        end = (candidates[-1].posted_at, candidates[-1].post_id) if len(candidates) == WINDOW else None
        stories = fold_stories(map(in_time, candidates), by_story=by_story)
        return _Found(stories, stories, end is not None, end)

    async def _best(
        self,
        tenant_id: UUID,
        planned: Planned,
        as_of: datetime | None,
        scale: Scale | None,
        *,
        about: tuple[datetime, timedelta] | None,
        by_story: bool,
    ) -> _Found:
        """By words and by meaning; on later pages by the scale of the first. `about`: now, and how soon that passes."""
        plan = planned.plan
        if not plan.channels:
            return _Found([], [])
        worths = [scored.worth for scored in plan.scored]
        if scale is not None and len(scale.worths) != len(worths):  # words were counted anew meanwhile
            scale = None
        found, (meaning, why) = await asyncio.gather(
            self.documents.newest(plan, limit=WINDOW, as_of=as_of), self._near(tenant_id, planned, scale)
        )
        full = len(found) == WINDOW
        known = {one.post_id for one in found}
        others = [post_id for post_id in meaning if post_id not in known]
        found += await self.documents.fitting(plan, others, as_of=as_of)
        fits = {one.post_id for one in found}
        near = {post_id: score for post_id, score in meaning.items() if post_id in fits}
        floor = self.meaning.floor(planned.said) if self.meaning else None
        scale = scale or scale_of(
            found, worths, near, floor, cyrillic=has_cyrillic(planned.said), translated=planned.query.translated
        )
        if about:
            scale = structs.replace(scale, now=about[0].timestamp(), half_life=about[1].total_seconds())
        ranked = rank(found, worths, near, scale)
        stories = fold_stories(ranked, by_story=by_story)
        by_words = fold_stories((one for one in ranked if one.candidate.post_id in known), by_story=by_story)
        return _Found(stories, by_words, full, scale=scale, without_meaning=why)

    async def _near(self, tenant_id: UUID, planned: Planned, scale: Scale | None) -> tuple[dict[UUID, float], str]:
        """By meaning, or why not. Deleted posts are in no vector index."""
        query, plan = planned.query, planned.plan
        if self.meaning is None or query.wants_deleted:
            return {}, self.why_without
        where = where_of(query, plan.channels)
        if len(plan.channels) > MANY_CHANNELS:
            hidden = await self.posts.others(plan.channels)
            where = but_not(where, hidden) if len(hidden) < len(plan.channels) else where
        # What came since the first page may have crowded out what was near then: so more are looked at, as far as then.
        meaning = self.meaning if scale is None else replace(self.meaning, nearest=LATER * self.meaning.nearest)
        try:
            # Only posts of the plan's channels are shown (`fitting`).
            found = await meaning.near_text(self.owners(tenant_id), planned.said, where)
        except Retry as exc:
            log.warning("search_by_words_alone", reason=str(exc))
            return {}, str(exc)
        return {one: score for one, score in found.items() if scale is None or score >= scale.far}, ""

    async def _hits(self, tenant_id: UUID, page: Sequence[Story], everywhere: Plan, marker: Marker) -> tuple[Hit, ...]:
        told = await self._tellers(page, everywhere)
        ids = {one.post_id for story, others in zip(page, told, strict=True) for one in (*story.candidates, *others)}
        album_ids = {album_id for story in page if (album_id := story.best.candidate.album_id)}
        shown, albums = await asyncio.gather(
            self.posts.posts(tenant_id, sorted(ids)), self.posts.albums(tenant_id, sorted(album_ids))
        )
        parts = [part for story in page for part in _parts(story, albums)]
        pictures = await self.posts.pictures(tenant_id, parts)
        # What is gone, or hidden, since the index was asked, is left out.
        pairs = [(story, others) for story, others in zip(page, told, strict=True) if _id(story) in shown]
        snippets = await asyncio.to_thread(lambda: [snippet(shown[_id(story)].passages, marker) for story, _ in pairs])
        return tuple(
            Hit(
                post=shown[_id(story)],
                snippet=piece,
                score=story.best.score,
                by_words=story.best.by_words,
                by_meaning=story.best.by_meaning,
                album=albums.get(story.best.candidate.album_id or UUID(int=0), ()),
                pictures=tuple(one for part in _parts(story, albums) for one in pictures.get(part, ())),
                tellers=_tellers(story, others, shown),
            )
            for (story, others), piece in zip(pairs, snippets, strict=True)
        )

    async def _tellers(self, page: Sequence[Story], everywhere: Plan) -> list[list[Candidate]]:
        """Who else tells the stories of a page, whether they fit the query or not."""
        ids = [story_id for story in page if (story_id := story.best.candidate.story_id)]
        near = await self.documents.tellers(everywhere, ids, limit=MOST_TELLERS * len(page))
        return [[one for one in near if _same_story(story.best.candidate, one)][:MOST_TELLERS] for story in page]

    async def _facets(self, tenant_id: UUID, query: Query, stories: Sequence[Story]) -> Facets:
        """As many stories as the query with the value finds; only values that it can have."""
        if not stories:
            return Facets()
        found = await self.documents.facets([[one.post_id for one in story.candidates] for story in stories])
        found["tags"] = [one for one in found.get("tags", ()) if is_writable(one[0])]
        if query.only.topics:  # another one beside it would widen
            found["topics"] = [one for one in found.get("topics", ()) if one[0] in query.only.topics]
        commonest = {kind: tuple(Facet(*one) for one in values[:MOST_FACETS]) for kind, values in found.items()}
        channels = commonest.pop("channels", ())
        names = await self.posts.names(tenant_id, [int(facet.value) for facet in channels])
        named = [(facet, *names[int(facet.value)]) for facet in channels if int(facet.value) in names]
        return Facets(channels=tuple(replace(one, title=title, name=name) for one, title, name in named), **commonest)


def _first_related(page: Sequence[Story], at: Cursor) -> int | None:
    """Where on this page those begin that have none of the words; None if they began before, or do not."""
    if at.last is not None and at.last[0]:
        return None
    return next((number for number, story in enumerate(page) if story.best.related), None)


def _next(at: Cursor, found: _Found, page: Sequence[Story], *, more: bool) -> str | None:
    if more:
        return str(structs.replace(at, last=order(page[-1].best), scale=found.scale))
    return str(structs.replace(at, last=None, base=found.end)) if found.end else None


def _id(story: Story) -> UUID:
    return story.best.candidate.post_id


def _parts(story: Story, albums: dict[UUID, tuple[UUID, ...]]) -> tuple[UUID, ...]:
    """The post, or all posts of its album."""
    candidate = story.best.candidate
    return albums.get(candidate.album_id or UUID(int=0), (candidate.post_id,))


def _belong_together(one: Candidate, other: Candidate) -> bool:
    in_album = one.album_id is not None and one.album_id == other.album_id
    return one.post_id == other.post_id or in_album or _same_story(one, other)


def _same_story(one: Candidate, other: Candidate) -> bool:
    return one.story_id is not None and one.story_id == other.story_id


def _tellers(story: Story, others: Sequence[Candidate], shown: dict[UUID, Shown]) -> tuple[Teller, ...]:
    """In the order of time, each album once; none if there is only one post."""
    own = story.best.candidate
    told: dict[UUID, Candidate] = {}
    for one in sorted((own, *story.others, *others), key=lambda one: (one.posted_at, one.post_id)):
        same_album = any(one.album_id and one.album_id == known.album_id for known in told.values())
        if one.post_id in shown and not same_album:
            told.setdefault(one.post_id, one)
    posts = [shown[post_id] for post_id in told]
    tellers = [Teller(one.post_id, one.channel_id, one.channel_title, one.posted_at, one.url) for one in posts]
    return tuple(tellers) if len(tellers) > 1 else ()


FIRST_YEAR, LAST_YEAR = 1970, 9000


class Cursor(msgspec.Struct, frozen=True, array_like=True):
    """The last story shown, by what they are ordered by; what was indexed since the first page is not looked at.

    `base` is where the window of candidates begins: the newest ones are looked through window by window.
    """

    asked: str  # of what query and order
    as_of: datetime
    last: tuple[bool, float, float, UUID] | None = None
    base: tuple[datetime, UUID] | None = None
    scale: Scale | None = None  # of the scores on the first page
    counted: Counted = Counted()  # there, too

    def __str__(self) -> str:
        """As it goes out, and comes back."""
        return urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")


def read_cursor(text: str, asked: str) -> Cursor:
    """Raises Reject for one that was made up, or made by another search."""
    try:
        cursor = msgspec.json.decode(urlsafe_b64decode(text[:LONGEST] + "=" * (-len(text) % 4)), type=Cursor)
    except (msgspec.DecodeError, Error, ValueError) as exc:
        raise Reject(WRONG) from exc
    moments = [cursor.as_of] if cursor.base is None else [cursor.as_of, cursor.base[0]]
    if cursor.asked != asked or not all(map(_sensible, moments)):
        raise Reject(WRONG)
    return cursor


def _sensible(moment: datetime) -> bool:
    """A moment that can be reckoned with in any zone."""
    return moment.tzinfo is not None and FIRST_YEAR <= moment.year <= LAST_YEAR


def digest_of(*parts: object) -> str:
    """What a cursor belongs to."""
    return blake2b(repr(parts).encode("utf-8", "surrogatepass"), digest_size=9).hexdigest()
