"""One post as its reader may see it, and what lies around it in the graph."""

from __future__ import annotations

from uuid import UUID

from telegram_assistant.domain.access import Caller
from telegram_assistant.errors import Retry
from telegram_assistant.search.graph import Around, Neighbourhood
from telegram_assistant.services.problems import not_found
from telegram_assistant.services.services import Services
from telegram_assistant.stores.postgres.post_views import PostView, PostViews
from telegram_assistant.stores.postgres.visible_posts import VisiblePosts

APART = "the graph is embedded and belongs to another process: set NEO4J_URL, or run tga up"


async def view_of(services: Services, caller: Caller, post_id: UUID) -> PostView:
    """What the caller may not see is not there."""
    view = await PostViews(services.database).get(caller.tenant_id, post_id)
    if view is None:
        raise not_found("post")
    return view


async def around_of(services: Services, caller: Caller, post_id: UUID, *, limit: int) -> Around:
    """Raises Retry while the graph is away."""
    if services.graph is None:
        raise Retry(APART)
    return await Neighbourhood(services.graph, VisiblePosts(services.database)).of(
        caller.tenant_id, post_id, limit=limit
    )
