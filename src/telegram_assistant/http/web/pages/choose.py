"""`/choose`: the reader's language and colours, kept in cookies."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter
from fastapi.responses import RedirectResponse, Response

from telegram_assistant.http.web.page import LANGUAGE, THEME

router = APIRouter(include_in_schema=False)

YEAR = 31_536_000  # seconds


def local(address: str) -> str:
    """Only to a page of ours; `//elsewhere` and `/\\elsewhere` are not."""
    ours = address.startswith("/") and not address.startswith(("//", "/\\")) and address.isprintable()
    return address if ours else "/"


@router.get("/choose")
async def choose(
    language: Literal["en", "ru"] | None = None,
    theme: Literal["auto", "light", "dark"] | None = None,
    next: str = "/",  # noqa: A002 - the name in the address
) -> Response:
    response = RedirectResponse(local(next), status_code=303)
    for name, value in ((LANGUAGE, language), (THEME, theme)):
        if value is not None:
            response.set_cookie(name, value, max_age=YEAR, samesite="lax", httponly=True)
    return response
