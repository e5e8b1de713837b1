"""What handlers of the API and of the pages ask for: actions of the caller, and things that are the caller's own."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import Depends, Path

from telegram_assistant.domain.access import owners_for
from telegram_assistant.domain.alerting import AlertChannel
from telegram_assistant.domain.saved_search import SavedSearch
from telegram_assistant.http.auth import AdminDep, CallerDep, ServicesDep
from telegram_assistant.search.graph import GraphWalk
from telegram_assistant.services.alert_places import AlertPlaceActions
from telegram_assistant.services.digests import DigestActions
from telegram_assistant.services.problems import not_found
from telegram_assistant.services.saved_searches import SavedSearchActions
from telegram_assistant.stores.postgres.alerts import AlertChannels
from telegram_assistant.stores.postgres.saved_searches import SavedSearches
from telegram_assistant.stores.postgres.search import SearchDocuments
from telegram_assistant.stores.postgres.visible_posts import VisiblePosts

SEARCH = "1b671a64-40d5-491e-99b0-da01ff1f3341"
PLACE = "3f1c2f0e-8f7e-4c7b-9b6a-0d6f1a2b3c4d"


def digests_of(services: ServicesDep, caller: CallerDep) -> DigestActions:
    return DigestActions(services, caller)


def saved_of(services: ServicesDep, caller: CallerDep) -> SavedSearchActions:
    return SavedSearchActions(
        SavedSearches(services.database), services.hooks, services.clock, caller.tenant_id, caller.user_id
    )


def places_of(services: ServicesDep, admin: AdminDep) -> AlertPlaceActions:
    return AlertPlaceActions(AlertChannels(services.database), services.outlets, services.clock, admin.tenant_id)


def graph_walk_of(services: ServicesDep) -> GraphWalk:
    database = services.database
    return GraphWalk(services.graph, SearchDocuments(database), VisiblePosts(database), owners_for)


DigestDep = Annotated[DigestActions, Depends(digests_of)]
SavedDep = Annotated[SavedSearchActions, Depends(saved_of)]
PlacesDep = Annotated[AlertPlaceActions, Depends(places_of)]
GraphWalkDep = Annotated[GraphWalk, Depends(graph_walk_of)]


async def get_saved(
    desk: SavedDep, search_id: Annotated[UUID, Path(description="The saved search's id.", examples=[SEARCH])]
) -> SavedSearch:
    """Those of other users are not there."""
    found = await desk.saved.get(desk.tenant_id, desk.user_id, search_id)
    if found is None:
        raise not_found("saved search")
    return found


async def get_place(
    desk: PlacesDep, place_id: Annotated[UUID, Path(description="The place's id.", examples=[PLACE])]
) -> AlertChannel:
    found = await desk.channels.get(desk.tenant_id, place_id)
    if found is None:
        raise not_found("place for alerts")
    return found


OwnSavedDep = Annotated[SavedSearch, Depends(get_saved)]
PlaceDep = Annotated[AlertChannel, Depends(get_place)]
