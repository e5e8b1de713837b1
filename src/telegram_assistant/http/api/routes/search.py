"""Search: posts by words and by meaning."""

from __future__ import annotations

from datetime import UTC, tzinfo
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from fastapi import APIRouter, Query

from telegram_assistant.domain.results import Sort
from telegram_assistant.http.api.models.search import LONGEST_QUESTION, SearchOut
from telegram_assistant.http.auth import CallerDep, ServicesDep
from telegram_assistant.http.cursor import LONGEST_OF_SEARCH
from telegram_assistant.search.service import MOST_HITS
from telegram_assistant.services.problems import Problem

router = APIRouter(prefix="/search", tags=["search"])


def zone_named(name: str | None) -> tzinfo:
    """Raises a problem for a zone that nobody knows."""
    try:
        return ZoneInfo(name) if name else UTC
    except (ZoneInfoNotFoundError, ValueError, OSError) as exc:
        raise Problem(422, "zone: is no time zone; write one as in Europe/Moscow") from exc


@router.get("", operation_id="search_posts", summary="Find posts by words and by meaning")
async def search_posts(
    services: ServicesDep,
    caller: CallerDep,
    *,
    q: Annotated[
        str,
        Query(
            max_length=LONGEST_QUESTION,
            description="In the query language. Empty: the newest posts.",
            examples=["цены на нефть -газ has:photo after:7d"],
        ),
    ] = "",
    limit: Annotated[int, Query(ge=1, le=MOST_HITS)] = 20,
    cursor: Annotated[str | None, Query(max_length=LONGEST_OF_SEARCH)] = None,
    sort: Annotated[Sort, Query(description="Without words it is always the newest.")] = Sort.BEST,
    zone: Annotated[str | None, Query(max_length=100, description="Where dates are meant; UTC if left out.")] = None,
) -> SearchOut:
    """Words in every inflection, phrases, exact forms, filters; posts that mean the same are found too. Near duplicates
    across channels are one item. Pages fit together while posts come: a cursor shows what was there at the first."""
    results = await services.search.search(
        caller.tenant_id, q, limit=limit, cursor=cursor, sort=sort, zone=zone_named(zone)
    )
    return SearchOut.of(results)
