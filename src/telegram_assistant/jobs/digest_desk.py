"""Where digests are made: an issue for a period, a preview, and an old issue with what became of its posts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.config import Settings
from telegram_assistant.domain.digests import (
    Change,
    Content,
    Correction,
    Frequency,
    Issue,
    Sentence,
    Told,
    Wish,
    corrections,
)
from telegram_assistant.domain.models import Answerer
from telegram_assistant.jobs.digest_stories import Found, Interests, Stories
from telegram_assistant.jobs.digest_writing import Citing, Evidence, Writer
from telegram_assistant.language.inflection import Inflection
from telegram_assistant.language.lexemes import Lexicon
from telegram_assistant.language.taxonomy import load_taxonomy
from telegram_assistant.search.planning import Planner
from telegram_assistant.stores.postgres.digests import DigestIssues, DigestPosts
from telegram_assistant.stores.postgres.search import SearchDocuments
from telegram_assistant.stores.postgres.visible_posts import VisiblePosts

REMEMBERED = timedelta(days=14)  # so long a story is not told again
PERIODS = {
    Frequency.DAILY: timedelta(days=1),
    Frequency.WEEKLY: timedelta(days=7),
    Frequency.MONTHLY: timedelta(days=31),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """An issue as a reader sees it today."""

    content: Content
    corrections: tuple[Correction, ...] = ()
    unsaid: frozenset[tuple[str, int]] = frozenset()  # a sentence, and a post that was edited and says it no more

    def corrections_of(self, sentence: Sentence) -> list[Correction]:
        return [one for one in self.corrections if one.source in sentence.sources]


class DigestDesk:
    """Makes and shows. `keeps_deleted`: whether words of deleted posts may still be shown."""

    def __init__(
        self,
        stories: Stories,
        writer: Writer,
        issues: DigestIssues,
        posts: DigestPosts,
        *,
        clock: Callable[[], datetime],
        keeps_deleted: bool = True,
        interests: Interests | None = None,
    ) -> None:
        self._stories = stories
        self._writer = writer
        self._issues = issues
        self._posts = posts
        self._clock = clock
        self._keeps_deleted = keeps_deleted
        self._interests = interests

    async def build(
        self,
        tenant_id: UUID,
        user_id: UUID,
        wish: Wish,
        since: datetime,
        until: datetime,
        *,
        digest_id: UUID | None = None,
        without_model: str = "",
    ) -> Content:
        """`without_model`: why the language model is not to be asked. Raises Retry when it is away."""
        told = await self._issues.told(tenant_id, digest_id, since=until - REMEMBERED) if digest_id else set()
        likes: Mapping[str, float] = await self._interests.weights(tenant_id, user_id) if self._interests else {}
        found = await self._stories.find(tenant_id, wish, since, until, told=sorted(told), interests=likes)
        return await self._write(tenant_id, found, wish, without_model)

    async def preview(
        self, tenant_id: UUID, user_id: UUID, wish: Wish, *, digest_id: UUID | None = None
    ) -> tuple[datetime, datetime, Content]:
        """What it would say if it were due now."""
        until = self._clock()
        since = until - PERIODS[wish.schedule.frequency]
        content = await self.build(tenant_id, user_id, wish, since, until, digest_id=digest_id)
        return since, until, content

    async def show(self, issue: Issue) -> Shown:
        return await self.shown(issue.tenant_id, issue.content or Content())

    async def shown(self, tenant_id: UUID, content: Content) -> Shown:
        """With corrections; what only deleted posts say is not repeated, if that is the rule here."""
        now = await self._posts.now(tenant_id, [one.post_id for one in content.cited])
        found = corrections(content, now)
        edited = any(one.change is Change.EDITED for one in found)
        unsaid = await asyncio.to_thread(self._unsaid, content, found) if edited else frozenset()
        if self._keeps_deleted:
            return Shown(content=content, corrections=found, unsaid=unsaid)
        lost = {one.source for one in found if one.change in {Change.DELETED, Change.GONE}}
        kept = tuple(_without(story, lost) for story in content.stories)
        return Shown(content=replace(content, stories=kept), corrections=found, unsaid=unsaid)

    def _unsaid(self, content: Content, found: tuple[Correction, ...]) -> frozenset[tuple[str, int]]:
        edited = {one.source: one.text for one in found if one.change is Change.EDITED}
        return frozenset(
            (sentence.text, source)
            for story in content.stories
            for sentence in story.sentences
            for source in sentence.sources
            if source in edited and not self._writer.evidence.says(sentence.text, edited[source])
        )

    async def _write(self, tenant_id: UUID, found: Found, wish: Wish, without_model: str) -> Content:
        citing = Citing()
        told: list[Told] = []
        wordless = 0
        for story in found.stories:
            if len(told) == wish.most:
                break
            written = await self._writer.tell(tenant_id, story, citing, wish.language, by_model=not without_model)
            if written is None:
                wordless += 1
            else:
                told.append(written)
        over = len(found.stories) - len(told) - wordless
        return Content(
            stories=tuple(told),
            cited=citing.cited,
            coverage=replace(found.coverage, told=len(told), wordless=wordless, over_limit=over),
            written_by="" if without_model else self._writer.model,
            without_model=without_model if self._writer.model else "",
        )


def _without(story: Told, lost: set[int]) -> Told:
    """Sentences that nothing is left of stay as an empty line: their receipts are still shown."""
    kept = tuple(replace(one, text="") if set(one.sources) <= lost else one for one in story.sentences)
    return replace(story, sentences=kept)


def open_desk(
    settings: Settings,
    database: AsyncEngine,
    clock: Callable[[], datetime],
    *,
    answerer: Answerer | None = None,
    lexicon: Lexicon | None = None,
    inflection: Inflection | None = None,
    interests: Interests | None = None,
) -> DigestDesk:
    """Without an answerer, digests are made of the posts' own words."""
    inflection = inflection or Inflection()
    documents, posts = SearchDocuments(database), DigestPosts(database)
    planner = Planner(documents, VisiblePosts(database), lexicon or Lexicon(inflection))
    patience = timedelta(seconds=2 * max(settings.polling_bound_sec, settings.parser_scheduler_interval_sec))
    return DigestDesk(
        Stories(posts, documents, planner, load_taxonomy(settings.ai_topics_file), patience=patience),
        Writer(Evidence(inflection), answerer),
        DigestIssues(database),
        posts,
        clock=clock,
        keeps_deleted=settings.retention_deleted == "keep",
        interests=interests,
    )
