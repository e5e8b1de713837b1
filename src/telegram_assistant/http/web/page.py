"""How a page is made: a template, the reader's language, theme and time zone, and who reads."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from http import HTTPStatus
from typing import Any, TypeAlias
from urllib.parse import quote, urlencode
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from telegram_assistant import __version__
from telegram_assistant.domain.access import Caller
from telegram_assistant.http.web import charts
from telegram_assistant.i18n import LANGUAGES, load_texts
from telegram_assistant.language.taxonomy import topic_title
from telegram_assistant.stages import stage_says

LANGUAGE, THEME, ZONE = "tga_language", "tga_theme", "tga_zone"  # cookies
THEMES = ("auto", "light", "dark")
NAVIGATION = (
    ("home", "/"),
    ("search", "/search"),
    ("ask", "/ask"),
    ("trends", "/trends"),
    ("digests", "/digests"),
    ("channels", "/channels"),
)
MORE = (
    ("graph", "/graph"),
    ("saved", "/saved"),
    ("alerts", "/alerts"),
    ("interests", "/interests"),
    ("pipeline", "/pipeline"),
    ("storage", "/storage"),
    ("jobs", "/jobs"),
)
FOR_WHO_RUNS_IT = frozenset({"jobs"})  # admins of the first tenant
SAY_NO_MORE = frozenset({HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.INTERNAL_SERVER_ERROR})


def make_pages() -> Environment:
    pages = Environment(
        loader=PackageLoader("telegram_assistant.http.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.globals |= {
        "version": __version__,
        "navigation": NAVIGATION,
        "sparkline": charts.sparkline,
        "line_chart": charts.line_chart,
        "heat_map": charts.heat_map,
        "link": link,
    }
    return pages


def page(
    request: Request, template: str, *, caller: Caller | None, status: int = 200, kept: bool = True, **context: Any
) -> HTMLResponse:
    """A whole page. `kept` False: no browser keeps it, and a secret on it does not come back with the Back button."""
    headers = None if kept else {"Cache-Control": "no-store"}
    return HTMLResponse(_render(request, template, caller, context), status_code=status, headers=headers)


def fragment(request: Request, template: str, *, caller: Caller | None, **context: Any) -> HTMLResponse:
    """A piece of one, for htmx. The same template language; it must not extend base.html."""
    return page(request, template, caller=caller, **context)


def _render(request: Request, template: str, caller: Caller | None, context: Mapping[str, Any]) -> str:
    language, zone = language_of(request), zone_of(request)
    pages: Environment = request.app.state.pages
    services = request.app.state.services
    return pages.get_template(template).render(
        t=partial(load_texts(), language),
        stage_says=partial(stage_says, language=language),
        language=language,
        theme=theme_of(request),
        when=partial(when, language=language, zone=zone, now=services.clock()),
        number=partial(number, language=language),
        size=partial(size, language=language),
        topic=partial(topic_title, language=language, file=services.settings.ai_topics_file),
        path=request.url.path,
        asked=request.url.path + (f"?{request.url.query}" if request.url.query else ""),
        caller=caller,
        more=[one for one in MORE if one[0] not in FOR_WHO_RUNS_IT or (caller and caller.is_operator)],
        demo=services.health.demo,
        **context,
    )


def wants_page(request: Request) -> bool:
    return not request.url.path.startswith("/api/") and (
        "text/html" in request.headers.get("accept", "") or "hx-request" in request.headers
    )


def error_page(
    request: Request, status: int, detail: str, headers: Mapping[str, str], *, translated: bool = False
) -> Response:
    """For people: what is wrong, and the way to the sign-in where that is what lacks."""
    by_htmx = "hx-request" in request.headers
    if status == HTTPStatus.UNAUTHORIZED:
        here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        there = link("/sign-in", next=here if request.method == "GET" and not by_htmx else "/")
        return Response(headers={"HX-Redirect": there}) if by_htmx else RedirectResponse(there, status_code=303)
    template = "problem_part.html" if by_htmx else "problem.html"
    words, exact = (detail, "") if translated else _explained(request, status, detail)
    answer = page(request, template, caller=None, status=status, code=status, detail=words, exact=exact)
    answer.headers.update(headers)
    return answer


def _explained(request: Request, status: int, detail: str) -> tuple[str, str]:
    """In the reader's language; and where the English words say more than the status does, those."""
    texts, language, key = load_texts(), language_of(request), f"base.detail_{status}"
    if language == "en" or key not in texts.keys:
        return detail, ""
    return texts(language, key), "" if status in SAY_NO_MORE else detail


def said(request: Request, key: str, **values: object) -> str:
    """A text in the reader's language, where no template says it."""
    return load_texts()(language_of(request), key, **values)


def language_of(request: Request) -> str:
    """The reader's choice, or what the browser prefers of what we speak."""
    chosen = request.cookies.get(LANGUAGE, "")
    if chosen in LANGUAGES:
        return chosen
    preferred = [part.partition(";")[0].strip()[:2].lower() for part in _languages(request)]
    return next((one for one in preferred if one in LANGUAGES), LANGUAGES[0])


def _languages(request: Request) -> list[str]:
    return request.headers.get("accept-language", "")[:500].split(",")


def theme_of(request: Request) -> str:
    chosen = request.cookies.get(THEME, "")
    return chosen if chosen in THEMES else THEMES[0]


def zone_of(request: Request) -> tzinfo:
    """app.js tells the browser's zone in a cookie; before that, UTC."""
    try:
        return ZoneInfo(request.cookies.get(ZONE, "") or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC


def when(moment: datetime | None, *, language: str, zone: tzinfo, now: datetime) -> Markup:
    """How long ago, with the exact time to hover over and for machines."""
    if moment is None:
        return Markup("&ndash;")
    local = moment.astimezone(zone)
    exact = f"{local:%d.%m.%Y %H:%M:%S}" if language == "ru" else f"{local:%Y-%m-%d %H:%M:%S}"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        moment.astimezone(UTC).isoformat(timespec="seconds"), f"{exact} {local:%Z}", _ago(moment, local, now, language)
    )


def _ago(moment: datetime, local: datetime, now: datetime, language: str) -> str:
    t = partial(load_texts(), language)
    seconds = (now - moment).total_seconds()
    for limit, unit, key in (
        (60, 1, "seconds"),
        (3600, 60, "minutes"),
        (86_400, 3600, "hours"),
        (604_800, 86_400, "days"),
    ):
        if abs(seconds) < limit:
            n = int(abs(seconds) // unit)
            if key == "seconds" and n < 5:
                return t("base.now")
            return t("base.ago" if seconds >= 0 else "base.ahead", span=t(f"base.{key}", n=n))
    return f"{local:%d.%m.%Y}" if language == "ru" else f"{local:%Y-%m-%d}"


def number(value: float, *, language: str) -> str:
    text = f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"
    return text.replace(",", "\u00a0").replace(".", ",") if language == "ru" else text


def size(value: float, *, language: str) -> str:
    """Of files."""
    units = ("Б", "КБ", "МБ", "ГБ", "ТБ") if language == "ru" else ("B", "kB", "MB", "GB", "TB")
    power = 0
    while value >= 1000 and power < len(units) - 1:
        value, power = value / 1000, power + 1
    shown = f"{value:.0f}" if value >= 10 or not power else f"{value:.1f}"
    return f"{shown.replace('.', ',') if language == 'ru' else shown}\u00a0{units[power]}"


def link(path: str, **parameters: object) -> str:
    """An address of ours with its parameters; those that are None or empty are left out."""
    given = {name: str(value) for name, value in parameters.items() if value not in (None, "")}
    return f"{quote(path, safe='/:@')}?{urlencode(given)}" if given else quote(path, safe="/:@")


Span: TypeAlias = tuple[str, int]  # a key of the texts, and how many of it

_UNITS = ((172_800, 86_400, "base.days"), (7200, 3600, "base.hours"), (120, 60, "base.minutes"))


def span_of(length: timedelta) -> Span:
    """In the largest unit of which there are at least two."""
    seconds = max(0, round(length.total_seconds()))
    for least, unit, key in _UNITS:
        if seconds >= least:
            return key, seconds // unit
    return "base.seconds", seconds


def span_of_seconds(seconds: float) -> Span:
    return span_of(timedelta(seconds=seconds))
