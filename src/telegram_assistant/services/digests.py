"""Digests of one caller: what the API and the pages do with them alike."""

from __future__ import annotations

from uuid import UUID

from telegram_assistant.domain.access import Caller
from telegram_assistant.domain.digests import Digest, Issue, Wish, next_after
from telegram_assistant.jobs.digest_formats import feed_path
from telegram_assistant.services.problems import Problem, not_found
from telegram_assistant.services.services import Services
from telegram_assistant.stores.postgres.digests import DigestIssues, Digests
from telegram_assistant.stores.postgres.visible_posts import VisiblePosts


class DigestActions:
    """Everything about digests that this caller may do. Those of others are not there."""

    def __init__(self, services: Services, caller: Caller) -> None:
        self._services = services
        self.caller = caller
        self.maker = services.digests
        self.digests = Digests(services.database)
        self.issues = DigestIssues(services.database)

    async def all(self) -> list[Digest]:
        return await self.digests.of_user(self.caller.tenant_id, self.caller.user_id)

    async def get(self, digest_id: UUID) -> Digest:
        found = await self.digests.get(self.caller.tenant_id, self.caller.user_id, digest_id)
        if found is None:
            raise not_found("digest")
        return found

    async def issue(self, digest_id: UUID, issue_id: UUID) -> tuple[Digest, Issue]:
        digest = await self.get(digest_id)
        issue = await self.issues.get(digest.tenant_id, digest.id, issue_id)
        if issue is None:
            raise not_found("issue")
        return digest, issue

    async def check(self, wish: Wish) -> None:
        """Only channels that the caller sees."""
        if not wish.channels:
            return
        visible = set(await VisiblePosts(self._services.database).channels(self.caller.tenant_id))
        unknown = [str(one) for one in wish.channels if one not in visible]
        if unknown:
            raise Problem(422, f"channels: you have no channel {', '.join(unknown[:10])}")

    async def add(self, wish: Wish) -> Digest:
        await self.check(wish)
        next_at = next_after(wish.schedule, self._services.clock())
        return await self.get(await self.digests.add(self.caller.tenant_id, self.caller.user_id, wish, next_at=next_at))

    async def change(self, digest: Digest, wish: Wish) -> Digest:
        # Channels that were lost since stay chosen: they may come back, and issues say that they are gone.
        known = set(digest.wish.channels)
        if not set(wish.channels) <= known:
            await self.check(wish)
        await self.digests.change(digest, wish, next_at=digest.due_after(wish, self._services.clock()))
        return await self.get(digest.id)

    async def send_again(self, issue: Issue) -> bool:
        return await self.issues.send_again(issue, self._services.clock())

    def feed(self, digest: Digest) -> str:
        return feed_path(self._services.signer, digest)
