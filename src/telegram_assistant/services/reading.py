"""What a reader opens: a post, trends, and the interests of the reader."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, date, datetime, time, timedelta
from uuid import UUID

from sqlalchemy.exc import SQLAlchemyError

from telegram_assistant.domain.access import Caller, Role
from telegram_assistant.domain.interests import Act, Weighed, clean_topic, weigh
from telegram_assistant.domain.text import clean_text
from telegram_assistant.errors import Retry
from telegram_assistant.jobs.interests import topic_key
from telegram_assistant.jobs.trends import find_trends
from telegram_assistant.language.taxonomy import load_taxonomy
from telegram_assistant.log import get_logger
from telegram_assistant.services.problems import Problem, not_found
from telegram_assistant.services.services import Services
from telegram_assistant.stores.postgres.interests import Interests
from telegram_assistant.stores.postgres.post_views import PostView, PostViews
from telegram_assistant.stores.postgres.trends import Saved


async def view_of(services: Services, caller: Caller, post_id: UUID) -> PostView:
    """What the caller may not see is not there."""
    view = await PostViews(services.database).get(caller.tenant_id, post_id)
    if view is None:
        raise not_found("post")
    return view


MOST_DAYS = 90
LOOKS, PER_SECONDS = 4, 600.0  # of one tenant, by hand


async def look_now(services: Services, caller: Caller) -> Saved:
    wait = await services.access.allow(f"trends:{caller.tenant_id}", limit=LOOKS, per=PER_SECONDS)
    if wait > 0:
        seconds = round(wait) + 1
        raise Problem(429, f"Trends were looked for just now: wait {seconds} s", headers={"Retry-After": str(seconds)})
    return await find_trends(services.database, caller.tenant_id, services.clock())


def span_of(now: datetime, day: date | None, days: int) -> tuple[datetime, datetime]:
    """From when to when trends are shown."""
    if day is None:
        return now - timedelta(days=days), now + timedelta(days=1)
    start = datetime.combine(day, time(), UTC)
    return start, start + timedelta(days=1)


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
