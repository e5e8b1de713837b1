"""`/channels`: what is watched, how completely, and adding more; `/channels/{id}`: one of them.

That page also says why the channel is looked at when it is, and how long it has been silent.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from typing import Annotated, Any, TypeAlias
from zoneinfo import available_timezones

from fastapi import APIRouter, Form, Path, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from telegram_assistant.domain.access import Caller
from telegram_assistant.domain.channel import MAX_CHANNEL_ID
from telegram_assistant.domain.polling import Explanation, Reason
from telegram_assistant.domain.silence import GapReport
from telegram_assistant.domain.text import clean_text
from telegram_assistant.http.answers import Cursor, read_cursor, write_cursor
from telegram_assistant.http.dependencies import AdminChannelsDep, CallerDep, ChannelsDep, ServicesDep
from telegram_assistant.http.web.charts import coverage_strip
from telegram_assistant.http.web.page import Span, fragment, page, span_of
from telegram_assistant.ingest.polling import Explained, Why
from telegram_assistant.services.channels import FIRST_YEAR, LONGEST_REFERENCE, RHYTHM_WEEKS, ChannelActions
from telegram_assistant.services.problems import Problem
from telegram_assistant.stores.postgres.watched_channels import Watched

ON_A_PAGE = 100
MOST_REQUESTS = 50
HOLES_NAMED = 6

router = APIRouter(include_in_schema=False)


ChannelId = Annotated[int, Path(ge=1, le=MAX_CHANNEL_ID)]
Words = Annotated[str, Query(max_length=200)]
Reference = Annotated[str, Form(max_length=LONGEST_REFERENCE)]


@router.get("/channels")
async def channels(request: Request, desk: ChannelsDep, caller: CallerDep, q: Words = "") -> HTMLResponse:
    return page(
        request,
        "channels.html",
        caller=caller,
        summary=await desk.watched.summary(caller.tenant_id),
        **await _listed(desk, caller, q, None),
        **await _requested(desk, caller),
    )


@router.get("/channels/list")
async def listed(
    request: Request, desk: ChannelsDep, caller: CallerDep, q: Words = "", cursor: Cursor = None
) -> HTMLResponse:
    found = await _listed(desk, caller, q, cursor)
    return fragment(request, "channels_list.html", caller=caller, **found)


@router.get("/channels/preview")
async def preview(request: Request, desk: ChannelsDep, caller: CallerDep, reference: Words = "") -> HTMLResponse:
    """What is known of what is being typed."""
    wrong, found = "", None
    if reference.strip():
        try:
            found = await desk.preview(reference)
        except Problem as problem:
            wrong = problem.detail
    return fragment(request, "channels_preview.html", caller=caller, found=found, wrong=bool(wrong))


@router.get("/channels/requests")
async def requested(request: Request, desk: ChannelsDep, caller: CallerDep, had: int = 0) -> HTMLResponse:
    """Asked again and again while something is looked for; `had` is how many there were, so that the list follows."""
    found = await _requested(desk, caller)
    answer = fragment(request, "channels_requests.html", caller=caller, **found)
    if len(found["requests"]) != had:
        answer.headers["HX-Trigger"] = "channels-changed"
    return answer


@router.post("/channels")
async def add(request: Request, desk: ChannelsDep, caller: CallerDep, reference: Reference = "") -> Response:
    await desk.add(reference)
    return await _after_a_wish(request, desk, caller)


@router.post("/channels/requests/{number}/drop")
async def drop_request(
    request: Request, desk: ChannelsDep, caller: CallerDep, number: Annotated[int, Path(ge=1, lt=2**63)]
) -> Response:
    await desk.drop_request(number)
    return await _after_a_wish(request, desk, caller)


async def _after_a_wish(request: Request, desk: ChannelActions, caller: Caller) -> Response:
    if "hx-request" not in request.headers:
        return RedirectResponse("/channels", status_code=303)
    return fragment(request, "channels_requests.html", caller=caller, **await _requested(desk, caller))


@router.get("/channels/{channel_id}")
async def channel(
    request: Request, desk: ChannelsDep, services: ServicesDep, caller: CallerDep, channel_id: ChannelId
) -> HTMLResponse:
    found = await desk.get(channel_id)
    rhythm, explained = await desk.rhythm(found), await desk.explain(channel_id)
    silence: tuple[Span, Span] | None = None
    if rhythm.gap is not None:
        silence = span_of(rhythm.gap.gap), span_of(rhythm.gap.threshold)
    return page(
        request,
        "channel.html",
        caller=caller,
        channel=found,
        rhythm=rhythm,
        heat_rows=lambda t: [(t(f"channel.day_{day}"), hours) for day, hours in enumerate(rhythm.posts)],
        heat_columns=[f"{hour:02}" for hour in range(24)],
        weeks=RHYTHM_WEEKS,
        silence=silence,
        silence_percent=bar_of_silence(rhythm.gap),
        reasons=reasons(explained),
        zones=sorted(available_timezones()) if caller.is_admin else (),
        first_year=FIRST_YEAR,
        today=services.clock().date(),
        **await _coverage(desk, channel_id),
    )


@router.get("/channels/{channel_id}/coverage")
async def coverage(request: Request, desk: ChannelsDep, caller: CallerDep, channel_id: ChannelId) -> HTMLResponse:
    """Polled while older posts are on their way."""
    found = await desk.get(channel_id)
    return fragment(request, "channel_coverage.html", caller=caller, channel=found, **await _coverage(desk, channel_id))


@router.post("/channels/{channel_id}/visit")
async def visit(desk: ChannelsDep, channel_id: ChannelId) -> Response:
    return _back(await desk.visit(channel_id))


@router.post("/channels/{channel_id}/backfill")
async def backfill(desk: ChannelsDep, channel_id: ChannelId, since: Annotated[date | None, Form()] = None) -> Response:
    """From a day on; without one, everything."""
    if since is not None and since.year < FIRST_YEAR:
        raise Problem(422, f"Telegram has no posts from before {FIRST_YEAR}")
    return _back(await desk.backfill(channel_id, datetime.combine(since, time(), UTC) if since else None))


@router.post("/channels/{channel_id}/remove")
async def remove(desk: AdminChannelsDep, channel_id: ChannelId) -> Response:
    await desk.remove(channel_id)
    return RedirectResponse("/channels", status_code=303)


@router.post("/channels/{channel_id}/revive")
async def revive(desk: AdminChannelsDep, channel_id: ChannelId) -> Response:
    return _back(await desk.revive(channel_id))


@router.post("/channels/{channel_id}/change")
async def change(
    desk: AdminChannelsDep,
    channel_id: ChannelId,
    priority: Annotated[int, Form(ge=-1000, le=1000)],
    timezone: Annotated[str, Form(max_length=64)],
) -> Response:
    if timezone not in available_timezones():
        raise Problem(422, "There is no such time zone: choose one of the list")
    return _back(await desk.change(channel_id, priority=priority, timezone=timezone))


def _back(found: Watched) -> Response:
    return RedirectResponse(f"/channels/{found.id}", status_code=303)


async def _listed(desk: ChannelActions, caller: Caller, words: str, cursor: str | None) -> dict[str, Any]:
    after: tuple[str, int] | None = None
    if cursor is not None:
        title, number = read_cursor(cursor, str, int)
        after = str(title), int(number)
    words = clean_text(words).strip()
    found = await desk.watched.page(caller.tenant_id, limit=ON_A_PAGE + 1, after=after, words=words)
    last = found[ON_A_PAGE - 1] if len(found) > ON_A_PAGE else None
    return {
        "channels": found[:ON_A_PAGE],
        "next": write_cursor(last.title, last.id) if last else None,
        "cursor": cursor,
        "q": words,
    }


async def _requested(desk: ChannelActions, caller: Caller) -> dict[str, Any]:
    return {"requests": await desk.watched.requests(caller.tenant_id, limit=MOST_REQUESTS)}


async def _coverage(desk: ChannelActions, channel_id: int) -> dict[str, Any]:
    state = await desk.ledger(channel_id)
    holes = state.holes
    return {
        "ledger": state,
        "audit": await desk.audit(channel_id),
        "holes": holes[:HOLES_NAMED],
        "holes_count": len(holes),
        "coverage_strip": coverage_strip,
    }


Said: TypeAlias = tuple[str, dict[str, object]]  # a key of the texts, and what stands in it


def bar_of_silence(gap: GapReport | None) -> float:
    """How much of what would be unusual has passed, in percent."""
    if gap is None or not gap.threshold:
        return 0.0
    return min(100.0, 100.0 * gap.gap / gap.threshold)


def reasons(explained: Explained) -> list[Said]:
    """The same as `Explained.sentences`, to be said in the reader's language."""
    if explained.decision is not None:
        return _of_decision(explained.decision)
    values: dict[str, object] = {
        "at": "" if explained.at is None else f"{explained.at:%H:%M:%S %Z}",
        "every": f"{explained.every:g}",
        "failures": explained.failures,
    }
    return [(f"channel.why_{explained.why.value}", values)]


def _of_decision(decision: Explanation) -> list[Said]:
    said: list[Said] = [(f"channel.because_{decision.reason.value}", {"posts": f"{decision.waiting:.2g}"})]
    if decision.silence is None:
        return [*said, ("channel.no_post_yet", {})]
    said.append(
        (
            "channel.rate",
            {
                "posts": f"{decision.posts_a_day:.3g}",
                "hour": f"{decision.hour_factor:.2g}",
                "recent": f"{decision.recent_factor:.2g}",
            },
        )
    )
    if decision.minutes:
        said.append(("channel.minutes", {"minutes": ", ".join(f":{minute:02}" for minute in decision.minutes[:8])}))
    if decision.onset_share is not None:
        said.append(("channel.onset", {"percent": f"{decision.onset_share:.0%}"}))
    if decision.weight != 1.0:
        said.append(("channel.weight", {"weight": f"{decision.weight:.3g}"}))
    return said


KEYS = [f"channel.why_{why.value}" for why in Why if why is not Why.RHYTHM] + [
    f"channel.because_{reason.value}" for reason in Reason
]
