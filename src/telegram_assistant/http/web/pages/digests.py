"""`/digests`: what you asked for, what came out with its receipts and corrections, and a preview; `/feeds`: as Atom."""

from __future__ import annotations

from functools import cache, partial
from typing import Annotated, Any
from uuid import UUID
from zoneinfo import available_timezones

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import ValidationError

from telegram_assistant.domain.digests import Digest, Frequency, Issue, Language, Way, Wish
from telegram_assistant.errors import Reject
from telegram_assistant.http.answers import Cursor, read_place, write_place
from telegram_assistant.http.dependencies import DigestDep, ServicesDep
from telegram_assistant.http.web.page import ZONE, fragment, language_of, page
from telegram_assistant.jobs.digest_formats import (
    correction_words,
    coverage_lines,
    make_feed,
    opens,
    period_words,
    says,
    schedule_words,
    zone_of,
)
from telegram_assistant.jobs.digests import ShownIssue
from telegram_assistant.language.taxonomy import load_taxonomy
from telegram_assistant.services.digests import DigestActions, DigestIn
from telegram_assistant.services.problems import Problem, not_found
from telegram_assistant.services.services import Services
from telegram_assistant.stores.postgres.digests import DigestIssues, DigestPosts, Digests

ON_A_PAGE = 20
IN_A_FEED = 20
LONGEST_TOPICS = 30_000
SEE_OTHER = 303

router = APIRouter(include_in_schema=False)


@cache
def zones() -> list[str]:
    return sorted(name for name in available_timezones() if not name.startswith(("Etc/", "SystemV/")))


class WishForm:
    """The form as it comes. Browsers leave out boxes that are not ticked."""

    def __init__(
        self,
        *,
        name: Annotated[str, Form(max_length=200)] = "",
        topics: Annotated[str, Form(max_length=LONGEST_TOPICS)] = "",
        channels: Annotated[list[str] | None, Form(max_length=1000)] = None,
        frequency: Annotated[str, Form(max_length=20)] = "daily",
        weekday: Annotated[str, Form(max_length=20)] = "0",
        day: Annotated[str, Form(max_length=20)] = "1",
        time: Annotated[str, Form(max_length=20)] = "12:00",
        zone: Annotated[str, Form(max_length=200)] = "Europe/Moscow",
        language: Annotated[str, Form(max_length=20)] = "ru",
        most: Annotated[str, Form(max_length=20)] = "10",
        ways: Annotated[list[str] | None, Form(max_length=20)] = None,
        ads: Annotated[str, Form(max_length=20)] = "",
        enabled: Annotated[str, Form(max_length=20)] = "",
    ) -> None:
        self.values: dict[str, Any] = {
            "name": name,
            "topics": topics,
            "channels": [one for one in channels or [] if one.isascii() and one.isdecimal()],
            "frequency": frequency,
            "weekday": weekday,
            "day": day,
            "time": time,
            "zone": zone,
            "language": language,
            "most": most,
            "ways": ways or [],
            "ads": bool(ads),
            "enabled": bool(enabled),
        }

    def wish(self) -> Wish:
        """Raises Problem with a sentence."""
        values = {name: value for name, value in self.values.items() if name not in {"most", "ways", "topics"}}
        try:
            wanted = DigestIn(
                topics=self.values["topics"].splitlines(),
                max_stories=self.values["most"],
                deliveries=self.values["ways"],
                **values,
            )
        except ValidationError as exc:
            first = exc.errors()[0]
            raise Problem(422, f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from exc
        return wanted.wish()


def _values(wish: Wish) -> dict[str, Any]:
    """The form as it is shown."""
    schedule = wish.schedule
    return {
        "name": wish.name,
        "topics": "\n".join(wish.topics),
        "channels": [str(one) for one in wish.channels],
        "frequency": schedule.frequency,
        "weekday": str(schedule.weekday),
        "day": str(schedule.day),
        "time": f"{schedule.minute // 60:02}:{schedule.minute % 60:02}",
        "zone": schedule.zone,
        "language": wish.language,
        "most": str(wish.most),
        "ways": [str(way) for way in wish.ways],
        "ads": wish.ads,
        "enabled": wish.enabled,
    }


WishFormDep = Annotated[WishForm, Depends(WishForm)]


@router.get("/digests")
async def digests(request: Request, room: DigestDep) -> HTMLResponse:
    found = await room.all()
    latest = {one.id: await room.issues.page(one.tenant_id, one.id, limit=1) for one in found}
    return page(
        request,
        "digests.html",
        caller=room.caller,
        digests=found,
        latest=latest,
        schedule_words=partial(schedule_words, t=says(language_of(request))),
    )


@router.get("/digests/new")
async def new(request: Request, services: ServicesDep, room: DigestDep) -> HTMLResponse:
    zone = request.cookies.get(ZONE, "")
    wish = Wish(name="", language=Language(language_of(request)))
    values = _values(wish) | ({"zone": zone} if zone in zones() else {})
    return await _form(request, services, room, values)


@router.post("/digests")
async def add(request: Request, services: ServicesDep, room: DigestDep, form: WishFormDep) -> Response:
    try:
        made = await room.add(form.wish())
    except (Problem, Reject) as exc:
        return await _form(request, services, room, form.values, problem=str(exc))
    return RedirectResponse(f"/digests/{made.id}", SEE_OTHER)


@router.post("/digests/preview")
async def preview(request: Request, room: DigestDep, form: WishFormDep) -> HTMLResponse:
    try:
        wish = form.wish()
        since, until, content = await room.preview(wish)
    except Problem as exc:
        return fragment(request, "digests_preview.html", caller=room.caller, problem=str(exc), shown=None)
    return fragment(
        request,
        "digests_preview.html",
        caller=room.caller,
        problem="",
        period=period_words(since, until, zone_of(wish.schedule), language_of(request)),
        **_told(request, wish, ShownIssue(content=content)),
    )


@router.get("/digests/{digest_id}")
async def digest(
    request: Request,
    services: ServicesDep,
    room: DigestDep,
    digest_id: UUID,
    cursor: Cursor = None,
) -> HTMLResponse:
    """Its history."""
    found = await room.get(digest_id)
    before = read_place(cursor)[0] if cursor is not None else None
    issues = await room.issues.page(found.tenant_id, found.id, limit=ON_A_PAGE + 1, before=before)
    shown = issues[:ON_A_PAGE]
    sendings = await room.issues.sendings(found.tenant_id, [one.id for one in shown])
    return page(
        request,
        "digest.html",
        caller=room.caller,
        digest=found,
        issues=shown,
        waiting=await room.issues.waiting(found.tenant_id, found.id),
        sendings=sendings,
        next=write_place(shown[-1].scheduled_for) if len(issues) > ON_A_PAGE else None,
        feed=f"{_base(request, services)}{room.feed(found)}",
        schedule_words=partial(schedule_words, t=says(language_of(request))),
        period=partial(_period, request, found),
    )


@router.get("/digests/{digest_id}/edit")
async def edit(request: Request, services: ServicesDep, room: DigestDep, digest_id: UUID) -> HTMLResponse:
    found = await room.get(digest_id)
    return await _form(request, services, room, _values(found.wish), digest=found)


@router.post("/digests/{digest_id}")
async def change(
    request: Request, services: ServicesDep, room: DigestDep, digest_id: UUID, form: WishFormDep
) -> Response:
    found = await room.get(digest_id)
    try:
        await room.change(found, form.wish())
    except (Problem, Reject) as exc:
        return await _form(request, services, room, form.values, digest=found, problem=str(exc))
    return RedirectResponse(f"/digests/{found.id}", SEE_OTHER)


@router.post("/digests/{digest_id}/remove")
async def remove(room: DigestDep, digest_id: UUID) -> Response:
    await room.digests.remove(await room.get(digest_id))
    return RedirectResponse("/digests", SEE_OTHER)


@router.post("/digests/{digest_id}/feed")
async def renew_feed(room: DigestDep, digest_id: UUID) -> Response:
    await room.digests.new_feed(await room.get(digest_id))
    return RedirectResponse(f"/digests/{digest_id}", SEE_OTHER)


@router.get("/digests/{digest_id}/issues/{issue_id}")
async def issue(request: Request, room: DigestDep, digest_id: UUID, issue_id: UUID) -> HTMLResponse:
    found, one = await room.issue(digest_id, issue_id)
    shown = await room.maker.show(one)
    return page(
        request,
        "digest_issue.html",
        caller=room.caller,
        digest=found,
        issue=one,
        sendings=await room.issues.sendings(found.tenant_id, [one.id]),
        period=_period(request, found, one),
        **_told(request, found.wish, shown),
    )


@router.post("/digests/{digest_id}/issues/{issue_id}/send")
async def send(room: DigestDep, digest_id: UUID, issue_id: UUID) -> Response:
    _, one = await room.issue(digest_id, issue_id)
    await room.send_again(one)
    return RedirectResponse(f"/digests/{digest_id}/issues/{issue_id}", SEE_OTHER)


@router.get("/feeds/{digest_id}/{token}")
async def feed(request: Request, services: ServicesDep, digest_id: UUID, token: str) -> Response:
    """The address is enough to read it, as long as its owner may read; a wrong one answers like none."""
    digests = Digests(services.database)
    found = await digests.any(digest_id)
    if found is None or not opens(services.signer, found, token, services.clock()) or Way.RSS not in found.wish.ways:
        raise not_found("feed")
    reader = await digests.reader(found)
    if reader is None or reader.disabled:
        raise not_found("feed")
    issues = await DigestIssues(services.database).page(found.tenant_id, found.id, limit=IN_A_FEED)
    told = [(one, await services.digests.show(one)) for one in issues]
    base = _base(request, services)
    content = make_feed(found, told, address=f"{base}{request.url.path}", base=base)
    return Response(content, media_type="application/atom+xml; charset=utf-8")


async def _form(
    request: Request,
    services: Services,
    room: DigestActions,
    values: dict[str, Any],
    *,
    digest: Digest | None = None,
    problem: str = "",
) -> HTMLResponse:
    names = load_taxonomy(services.settings.ai_topics_file).names().values()
    at = 0 if language_of(request) == "ru" else 1
    return page(
        request,
        "digest_form.html",
        caller=room.caller,
        status=422 if problem else 200,
        digest=digest,
        values=values,
        problem=problem,
        channels=await DigestPosts(services.database).standings(room.caller.tenant_id),
        topics=", ".join(one[at] for one in names),
        zones=zones(),
        frequencies=list(Frequency),
        ways=list(Way),
        mail=bool(services.settings.smtp_host),
    )


def _base(request: Request, services: Services) -> str:
    return (services.settings.api_public_url or str(request.base_url)).rstrip("/")


def _period(request: Request, digest: Digest, issue: Issue) -> str:
    return period_words(issue.since, issue.until, zone_of(digest.wish.schedule), language_of(request))


def _told(request: Request, wish: Wish, shown: ShownIssue) -> dict[str, Any]:
    """What the template of an issue needs."""
    language, zone = language_of(request), zone_of(wish.schedule)
    t = says(language)
    return {
        "shown": shown,
        "coverage": coverage_lines(shown.content, t, zone, language),
        "correction_words": partial(correction_words, t=t, zone=zone, language=language),
    }
