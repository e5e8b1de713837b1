"""What a user likes: shown, chosen, forgotten."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy.exc import SQLAlchemyError

from telegram_assistant.domain.access import Caller, Role
from telegram_assistant.domain.interests import Act, Weighed, clean_topic, weigh
from telegram_assistant.domain.text import clean_text
from telegram_assistant.errors import Retry
from telegram_assistant.jobs.interests import topic_key
from telegram_assistant.language.taxonomy import load_taxonomy
from telegram_assistant.log import get_logger
from telegram_assistant.services.problems import Problem
from telegram_assistant.services.services import Services
from telegram_assistant.stores.postgres.interests import Interests

MOST_NOTED = 8  # topics of one act

log = get_logger(__name__)


async def weighed_of(services: Services, caller: Caller) -> list[Weighed]:
    known = await Interests(services.database).of_user(caller.tenant_id, caller.user_id)
    return weigh(known, services.clock())


async def choose(services: Services, caller: Caller, topic: str, weight: float | None) -> None:
    """Raises Reject for one too many, a problem for nothing at all."""
    key = topic_key(topic, load_taxonomy(services.settings.ai_topics_file))
    if not key:
        raise Problem(422, "topic: has no letters in it")
    interests = Interests(services.database)
    await interests.choose(caller.tenant_id, caller.user_id, key, weight, now=services.clock())


async def forget(services: Services, caller: Caller, topic: str | None) -> int:
    """In the graph at once, too, where that is at hand; otherwise with the next synchronisation."""
    key = None if topic is None else topic_key(topic, load_taxonomy(services.settings.ai_topics_file))
    gone = await Interests(services.database).forget(caller.tenant_id, caller.user_id, key)
    if gone and key is None and services.graph is not None:
        try:
            await services.graph.put_interests(caller.tenant_id, caller.user_id, {})
        except Retry as exc:
            log.warning("interests_still_in_the_graph", reason=str(exc))
    return gone


async def note(services: Services, caller: Caller, act: Act, topics: Collection[str]) -> None:
    """Remember what a user did. A page that is asked for never fails because of it."""
    known = [topic for one in topics if (topic := clean_topic(clean_text(one)))][:MOST_NOTED]
    if not known or caller.role is Role.SYSTEM:
        return
    try:
        interests = Interests(services.database)
        await interests.note(caller.tenant_id, caller.user_id, act, known, now=services.clock())
    except (SQLAlchemyError, OSError) as exc:
        log.warning("interest_not_noted", act=act, reason=str(exc))
