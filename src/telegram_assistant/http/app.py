"""The application: the API under /api/v1, the pages at /."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, FastAPI
from starlette.staticfiles import StaticFiles

from telegram_assistant import __version__
from telegram_assistant.http import api as api_routes
from telegram_assistant.http.errors import PROBLEMS, handle_problems
from telegram_assistant.http.guards import BodyLimit, SafeHeaders
from telegram_assistant.http.web import pages
from telegram_assistant.http.web.page import make_pages
from telegram_assistant.services.services import Services

STATIC = Path(__file__).parent / "web" / "static"
PREFIX = "/api/v1"
ABOUT = """
Everything that your channels said, as data.

Send an API key with each request: `Authorization: Bearer tga_…`. Make one with `tga keys create` or on your account
page. What you see is what your tenant watches; anything else is `404`. Lists give `items` and `next`: send `next` back
as `cursor` for the following page. Errors are `application/problem+json` (RFC 9457).
"""


def make_app(services: Services) -> FastAPI:
    app = FastAPI(
        title="Telegram Assistant",
        version=__version__,
        description=ABOUT,
        openapi_url="/api/openapi.json",
        docs_url=None,  # its page would load scripts from elsewhere
        redoc_url=None,
    )
    app.state.services = services
    app.state.pages = make_pages()
    handle_problems(app)
    app.add_middleware(BodyLimit)
    app.add_middleware(SafeHeaders)
    api = APIRouter(prefix=PREFIX, responses=PROBLEMS)
    for router in api_routes.ROUTERS:
        api.include_router(router)
    app.include_router(api)
    for router in (*api_routes.OUTSIDE, *pages.ROUTERS):
        app.include_router(router)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    return app
