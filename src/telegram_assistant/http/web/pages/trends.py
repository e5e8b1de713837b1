"""`/trends`: what rises, who told of it first, how it spread; `/trends/{id}`: one of them with its posts.

`/interests`: what the system thinks a reader likes, to be changed and forgotten; and what follows from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo
from itertools import groupby
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from telegram_assistant.domain.access import Caller
from telegram_assistant.domain.interests import LONGEST_TOPIC
from telegram_assistant.domain.trends import LEAST_DAYS, Kind, Subject, Window
from telegram_assistant.http.dependencies import CallerDep, ServicesDep, TrendId
from telegram_assistant.http.web.page import fragment, language_of, link, page, zone_of
from telegram_assistant.http.web.rendering import search_href
from telegram_assistant.jobs.interests import Advisor
from telegram_assistant.language.taxonomy import load_taxonomy, topic_title
from telegram_assistant.services.problems import not_found
from telegram_assistant.services.reading import MOST_DAYS, choose, forget, look_now, span_of, weighed_of
from telegram_assistant.services.services import Services
from telegram_assistant.stores.postgres.trend_counts import TrendCounts
from telegram_assistant.stores.postgres.trends import FoundTrend, TrendPost, Trends

SPANS = (1, 7, 30)  # days to choose from
MOST = 60
STEPS = 6  # of the path, on a card
POSTS = 12  # that are shown at once
ALSO = 5  # further subjects, on a card
Days = Annotated[int, Query(ge=1, le=MOST_DAYS)]
Looked = Annotated[int, Query(ge=0, le=1000)]

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class Names:
    """How subjects are called on a page, and where they lead."""

    language: str
    topics: Path | None  # the file of the taxonomy

    def name(self, subject: Subject) -> str:
        return topic_title(subject.key, self.language, self.topics) if subject.kind is Kind.TOPIC else subject.key

    def title(self, subject: Subject) -> str:
        """As a heading: tags are kept in small letters."""
        name = self.name(subject)
        return name[:1].upper() + name[1:]

    def others(self, trend: FoundTrend) -> list[Subject]:
        """Each name once: an entity may be a tag as well."""
        named = {trend.main.key.casefold(): trend.main}
        for one in trend.subjects:
            named.setdefault(one.subject.key.casefold(), one.subject)
        return list(named.values())[1:]

    def href(self, subject: Subject) -> str:
        word = subject.key.replace('"', "")
        words = {Kind.TOPIC: f"topic:{word}", Kind.PHRASE: f'tag:"{word}"', Kind.EVENT: word}
        return search_href(words.get(subject.kind, f'"{word}"'))


@dataclass(frozen=True, slots=True)
class Step:
    """A channel on the path: how long after the first it told of it."""

    post: TrendPost
    after: timedelta
    unit: str  # of `count`
    count: int


@router.get("/trends")
async def trends(
    request: Request, services: ServicesDep, caller: CallerDep, days: Days = 7, looked: Looked | None = None
) -> HTMLResponse:
    since, before = span_of(services.clock(), None, days)
    found = await Trends(services.database).page(caller.tenant_id, since=since, before=before, limit=MOST)
    return page(
        request,
        "trends.html",
        caller=caller,
        by_day=_by_day(found),
        days=days,
        spans=SPANS,
        looked=looked,
        has_past=bool(found) or await _has_past(services, caller),
        least_days=LEAST_DAYS,
        names=_names(request, services),
        steps=_steps,
        shown_steps=STEPS,
        also=ALSO,
    )


@router.post("/trends/find")
async def find(services: ServicesDep, caller: CallerDep) -> Response:
    saved = await look_now(services, caller)
    return RedirectResponse(link("/trends", days=1, looked=len(saved.new)), status_code=303)


@router.get("/trends/{trend_id}")
async def trend(request: Request, services: ServicesDep, caller: CallerDep, trend_id: TrendId) -> HTMLResponse:
    found = await Trends(services.database).get(caller.tenant_id, trend_id)
    if found is None:
        raise not_found("trend")
    return page(
        request,
        "trend.html",
        caller=caller,
        trend=found,
        names=_names(request, services),
        steps=_steps(found),
        shown_posts=POSTS,
        growth=_growth(found.posts, zone_of(request)),
    )


async def _has_past(services: Services, caller: Caller) -> bool:
    return bool(await TrendCounts(services.database).channels(caller.tenant_id, Window(services.clock())))


def _names(request: Request, services: Services) -> Names:
    return Names(language_of(request), services.settings.ai_topics_file)


def _by_day(found: Sequence[FoundTrend]) -> list[tuple[date, list[FoundTrend]]]:
    return [(day, list(of_day)) for day, of_day in groupby(found, key=lambda one: one.day)]


def _steps(found: FoundTrend) -> list[Step]:
    path = found.path
    return [_step(post, post.posted_at - path[0].posted_at) for post in path]


def _step(post: TrendPost, after: timedelta) -> Step:
    """A day and a half are still hours."""
    minutes = int(after / timedelta(minutes=1))
    unit, size = ("minutes", 1) if minutes < 100 else ("hours", 60) if minutes < 2880 else ("days", 1440)
    return Step(post, after, unit, round(minutes / size))


def _growth(posts: Sequence[TrendPost], zone: tzinfo) -> list[tuple[str, list[tuple[datetime, float]]]]:
    """Posts and channels over time."""
    series: list[tuple[str, list[tuple[datetime, float]]]] = [("posts", []), ("channels", [])]
    seen: set[int] = set()
    for number, post in enumerate(posts, start=1):
        seen.add(post.channel_id)
        at = post.posted_at.astimezone(zone)
        series[0][1].append((at, number))
        series[1][1].append((at, len(seen)))
    return series if len(posts) > 1 else []


# What a reader can choose, as weights; the first is what follows from what is done.
LEVELS: dict[str, float | None] = {"auto": None, "never": 0.0, "little": 0.3, "some": 0.6, "much": 1.0}
RECOMMENDED = 6
SUGGESTED = 12  # topics to begin with

Topic = Annotated[str, Form(min_length=1, max_length=LONGEST_TOPIC)]


@router.get("/interests")
async def interests(request: Request, services: ServicesDep, caller: CallerDep) -> HTMLResponse:
    known = await weighed_of(services, caller)
    taken = {one.interest.topic for one in known}
    topics = load_taxonomy(services.settings.ai_topics_file).names()
    return page(
        request,
        "interests.html",
        caller=caller,
        known=known,
        levels=list(LEVELS),
        level_of=_level,
        suggested=[key for key in topics if key not in taken][:SUGGESTED],
        longest=LONGEST_TOPIC,
    )


@router.get("/interests/recommended")
async def recommended(request: Request, services: ServicesDep, caller: CallerDep) -> HTMLResponse:
    """Loaded after the page."""
    advisor = Advisor(services.database, services.clock)
    found = await advisor.recommend(caller.tenant_id, caller.user_id, limit=RECOMMENDED)
    return fragment(request, "interests_recommended.html", caller=caller, found=found)


@router.post("/interests")
async def change(
    services: ServicesDep, caller: CallerDep, topic: Topic, level: Annotated[str, Form(max_length=10)] = "much"
) -> Response:
    await choose(services, caller, topic, LEVELS.get(level, 1.0))
    return RedirectResponse("/interests", status_code=303)


@router.post("/interests/forget")
async def forget_one(services: ServicesDep, caller: CallerDep, topic: Topic) -> Response:
    await forget(services, caller, topic)
    return RedirectResponse("/interests", status_code=303)


@router.post("/interests/forget-all")
async def forget_all(services: ServicesDep, caller: CallerDep) -> Response:
    await forget(services, caller, None)
    return RedirectResponse("/interests", status_code=303)


def _level(chosen: float | None) -> str:
    """The nearest, for weights that were set through the API."""
    if chosen is None:
        return "auto"
    return min((abs(weight - chosen), name) for name, weight in LEVELS.items() if weight is not None)[1]
