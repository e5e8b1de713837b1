"""`/channels`: what is watched, how completely, and adding more; `/channels/{id}`: one of them.

That page also says why the channel is looked at when it is, and how long it has been silent.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, time
from typing import Annotated, Any, TypeAlias
from zoneinfo import available_timezones

from fastapi import APIRouter, Form, Path, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from telegram_assistant.domain.access import Caller
from telegram_assistant.domain.channel import MAX_CHANNEL_ID
from telegram_assistant.domain.channel_lists import LONGEST_GROUP, LONGEST_LIST, clean_group
from telegram_assistant.domain.polling import Explanation, Reason
from telegram_assistant.domain.post import LARGEST_MESSAGE_ID
from telegram_assistant.domain.silence import GapReport
from telegram_assistant.domain.text import clean_text
from telegram_assistant.http.answers import Cursor, read_cursor, write_cursor
from telegram_assistant.http.dependencies import AdminChannelsDep, CallerDep, ChannelsDep, ServicesDep
from telegram_assistant.http.web.charts import coverage_strip
from telegram_assistant.http.web.page import Span, fragment, page, span_of
from telegram_assistant.ingest.polling import Explained, Why
from telegram_assistant.services.channels import (
    FIRST_YEAR,
    LONGEST_REFERENCE,
    MOST_REQUESTS,
    RHYTHM_WEEKS,
    Bulk,
    ChannelActions,
    Outcome,
)
from telegram_assistant.services.problems import Problem, not_found
from telegram_assistant.stores.postgres.post_views import PostViews
from telegram_assistant.stores.postgres.watched_channels import Watched

ON_A_PAGE = 100
MOST_TICKS = 1000
REQUESTS_SHOWN = 50
HOLES_NAMED = 6

router = APIRouter(include_in_schema=False)


ChannelId = Annotated[int, Path(ge=1, le=MAX_CHANNEL_ID)]
Words = Annotated[str, Query(max_length=200)]
InGroup = Annotated[str, Query(max_length=LONGEST_GROUP)]
GroupName = Annotated[str, Form(max_length=LONGEST_GROUP)]
Reference = Annotated[str, Form(max_length=LONGEST_REFERENCE)]


@router.get("/channels")
async def channels(
    request: Request, desk: ChannelsDep, caller: CallerDep, q: Words = "", group: InGroup = ""
) -> HTMLResponse:
    return page(
        request,
        "channels.html",
        caller=caller,
        summary=await desk.watched.summary(caller.tenant_id),
        groups=await desk.watched.groups(caller.tenant_id),
        **await _listed(desk, caller, q, group),
        **await _requested(desk, caller),
    )


@router.get("/channels/list")
async def listed(
    request: Request, desk: ChannelsDep, caller: CallerDep, q: Words = "", group: InGroup = "", *, cursor: Cursor = None
) -> HTMLResponse:
    found = await _listed(desk, caller, q, group, cursor)
    return fragment(request, "channels_list.html", caller=caller, **found)


@router.get("/channels/many")
async def many(
    request: Request, desk: AdminChannelsDep, caller: CallerDep, q: Words = "", group: InGroup = ""
) -> HTMLResponse:
    """With ticks; apart from the list, which is renewed every few seconds."""
    return page(request, "channels_many.html", caller=caller, changed=None, **await _ticked(desk, caller, q, group))


@router.post("/channels/many")
async def change_many(
    request: Request,
    desk: AdminChannelsDep,
    caller: CallerDep,
    action: Annotated[Bulk, Form()],
    *,
    channel: Annotated[list[int], Form()] = [],  # noqa: B006 - FastAPI copies it
    priority: Annotated[int, Form(ge=-1000, le=1000)] = 0,
    group: GroupName = "",
) -> HTMLResponse:
    changed = await desk.change_many(channel, action, priority=priority, group=group)
    return page(request, "channels_many.html", caller=caller, changed=changed, **await _ticked(desk, caller, "", ""))


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
    if found["waiting"] != had:
        answer.headers["HX-Trigger"] = "channels-changed"
    return answer


@router.post("/channels")
async def add(request: Request, desk: ChannelsDep, caller: CallerDep, reference: Reference = "") -> Response:
    await desk.add(reference)
    return await _after_a_wish(request, desk, caller)


@router.post("/channels/several")
async def add_several(
    request: Request, desk: ChannelsDep, caller: CallerDep, several: Annotated[str, Form(max_length=LONGEST_LIST)] = ""
) -> Response:
    """A pasted list; what became of each entry is shown, and what is looked for below it."""
    added = await desk.add_list(several)
    if "hx-request" not in request.headers:
        return RedirectResponse("/channels", status_code=303)
    counts = Counter(one.outcome.value for one in added)
    refused = [one.entry for one in added if one.outcome is Outcome.REFUSED]
    requested = await _requested(desk, caller)
    return fragment(request, "channels_added.html", caller=caller, counts=counts, refused=refused, **requested)


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
        groups=await desk.watched.groups(caller.tenant_id),
        first_year=FIRST_YEAR,
        today=services.clock().date(),
        disagreements=await desk.disagreements(channel_id),
        topics=await desk.topics(channel_id),
        **await _coverage(desk, found),
    )


@router.get("/channels/{channel_id}/topics/{number}")
async def topic(
    request: Request,
    *,
    desk: ChannelsDep,
    services: ServicesDep,
    caller: CallerDep,
    channel_id: ChannelId,
    number: Annotated[int, Path(ge=1, le=LARGEST_MESSAGE_ID)],
) -> HTMLResponse:
    """The newest posts of a topic of a forum."""
    found = next((one for one in await desk.topics(channel_id) if one.id == number), None)
    if found is None:
        raise not_found("topic")
    posts = await PostViews(services.database).newest(
        caller.tenant_id, limit=ON_A_PAGE, channel_id=found.channel_id, thread=number
    )
    channel = await desk.get(channel_id)
    return page(request, "channel_topic.html", caller=caller, channel=channel, topic_of=found, posts=posts)


@router.post("/channels/{channel_id}/differences/{number}/seen")
async def difference_seen(
    desk: AdminChannelsDep, channel_id: ChannelId, number: Annotated[int, Path(ge=1, lt=2**63)]
) -> Response:
    await desk.mark_seen(channel_id, number)
    return RedirectResponse(f"/channels/{channel_id}#witnesses", status_code=303)


@router.get("/channels/{channel_id}/coverage")
async def coverage(request: Request, desk: ChannelsDep, caller: CallerDep, channel_id: ChannelId) -> HTMLResponse:
    """Polled while older posts are on their way."""
    found = await desk.get(channel_id)
    return fragment(request, "channel_coverage.html", caller=caller, channel=found, **await _coverage(desk, found))


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


@router.post("/channels/{channel_id}/pause")
async def pause(desk: AdminChannelsDep, channel_id: ChannelId) -> Response:
    return _back(await desk.pause(channel_id))


@router.post("/channels/{channel_id}/resume")
async def resume(desk: AdminChannelsDep, channel_id: ChannelId) -> Response:
    return _back(await desk.resume(channel_id))


@router.post("/channels/{channel_id}/change")
async def change(
    desk: AdminChannelsDep,
    channel_id: ChannelId,
    priority: Annotated[int, Form(ge=-1000, le=1000)],
    timezone: Annotated[str, Form(max_length=64)],
    group: GroupName = "",
) -> Response:
    if timezone not in available_timezones():
        raise Problem(422, "There is no such time zone: choose one of the list")
    return _back(await desk.change(channel_id, priority=priority, timezone=timezone, group=group))


def _back(found: Watched) -> Response:
    return RedirectResponse(f"/channels/{found.id}", status_code=303)


async def _ticked(desk: ChannelActions, caller: Caller, words: str, group: str) -> dict[str, Any]:
    group = clean_group(group)
    found = await desk.watched.page(caller.tenant_id, limit=MOST_TICKS, words=clean_text(words).strip(), group=group)
    return {
        "channels": found,
        "q": words,
        "group": group,
        "groups": await desk.watched.groups(caller.tenant_id),
    }


async def _listed(
    desk: ChannelActions, caller: Caller, words: str, group: str, cursor: str | None = None
) -> dict[str, Any]:
    after: tuple[str, int] | None = None
    if cursor is not None:
        title, number = read_cursor(cursor, str, int)
        after = str(title), int(number)
    words, group = clean_text(words).strip(), clean_group(group)
    found = await desk.watched.page(caller.tenant_id, limit=ON_A_PAGE + 1, after=after, words=words, group=group)
    last = found[ON_A_PAGE - 1] if len(found) > ON_A_PAGE else None
    return {
        "channels": found[:ON_A_PAGE],
        "next": write_cursor(last.title, last.id) if last else None,
        "cursor": cursor,
        "q": words,
        "group": group,
    }


async def _requested(desk: ChannelActions, caller: Caller) -> dict[str, Any]:
    found = await desk.watched.requests(caller.tenant_id, limit=MOST_REQUESTS)
    return {"requests": found[:REQUESTS_SHOWN], "waiting": len(found)}


async def _coverage(desk: ChannelActions, channel: Watched) -> dict[str, Any]:
    state = await desk.ledger(channel.id)
    holes = state.holes
    return {
        "ledger": state,
        "audit": await desk.audit(channel.id),
        "takeout": await desk.takeout(channel),
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
