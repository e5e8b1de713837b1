"""Everything you follow: the channels of the tenant's accounts, to choose from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from telegram_assistant.domain.access import Caller
from telegram_assistant.domain.channel_lists import MOST_ENTRIES, Entry
from telegram_assistant.domain.source import Followed
from telegram_assistant.ingest.follows import ask_follows, folder_of
from telegram_assistant.services.channels import Added, ChannelActions, reference_of
from telegram_assistant.services.problems import Problem, conflict, forbidden
from telegram_assistant.services.services import Services

PATIENCE = 45.0


@dataclass(frozen=True, slots=True)
class Offer:
    """A channel to tick."""

    followed: Followed
    watched: bool  # or asked for already

    @property
    def reference(self) -> str:
        return str(self.followed.ref)


class FollowActions:
    """For an admin: which channels an account has joined is its owner's business."""

    def __init__(self, services: Services, caller: Caller) -> None:
        if not caller.is_admin:
            raise forbidden("Only an admin may look at what the accounts follow")
        self._services = services
        self._caller = caller
        self._channels = ChannelActions(services, caller)

    async def offers(self, link: str = "") -> list[Offer]:
        """All that the tenant's accounts follow, or the channels of a shared folder."""
        try:
            slug = folder_of(link)
        except ValueError as exc:
            raise Problem(422, str(exc)) from exc
        answer = await ask_follows(self._services.redis, self._caller.tenant_id, slug, seconds=PATIENCE)
        if answer is None:
            raise conflict("Capture does not answer: look whether it runs (tga doctor), and try again")
        if answer.error:
            raise conflict(answer.error)
        known = await self._channels.known()
        return [
            Offer(one, watched=one.info.id in known.ids or str(one.ref) in known.references) for one in answer.followed
        ]

    async def add(self, references: Sequence[str]) -> list[Added]:
        """Those that were ticked. What the list just told of them is not asked for again."""
        if len(references) > MOST_ENTRIES:
            raise Problem(422, f"More than {MOST_ENTRIES:,} channels: add them in several parts")
        return await self._channels.add_entries(
            [Entry(one, str(reference_of(one))) for one in dict.fromkeys(references)]
        )
