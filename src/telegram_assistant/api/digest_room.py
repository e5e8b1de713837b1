"""Digests of one caller: what the API and the pages do with them alike."""

from __future__ import annotations

from typing import Annotated, cast
from uuid import UUID

from fastapi import Depends, Request

from telegram_assistant.api.auth import CallerDep, ServicesDep
from telegram_assistant.api.problems import Problem, not_found
from telegram_assistant.api.services import Services
from telegram_assistant.domain.access import Caller
from telegram_assistant.domain.digest_schedule import next_after
from telegram_assistant.domain.digests import Digest, Issue, Wish
from telegram_assistant.jobs.digest_desk import DigestDesk, open_desk
from telegram_assistant.jobs.digest_feed import feed_path
from telegram_assistant.stores.postgres.digests import DigestIssues, Digests
from telegram_assistant.stores.postgres.post_lists import SearchPosts


def desk_of(request: Request, services: Services) -> DigestDesk:
    """The one of the process, which knows the language model; without it, one that cites the posts' own words."""
    return cast("DigestDesk | None", getattr(request.app.state, "digests", None)) or open_desk(
        services.settings, services.database, services.clock
    )


class DigestRoom:
    """Everything about digests that this caller may do. What is somebody else's is not there."""

    def __init__(self, request: Request, services: ServicesDep, caller: CallerDep) -> None:
        self._request = request
        self._services = services
        self.caller: Caller = caller
        self.digests = Digests(services.database)
        self.issues = DigestIssues(services.database)

    @property
    def desk(self) -> DigestDesk:
        return desk_of(self._request, self._services)

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
        visible = set(await SearchPosts(self._services.database).channels(self.caller.tenant_id))
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


DigestRoomDep = Annotated[DigestRoom, Depends(DigestRoom)]
