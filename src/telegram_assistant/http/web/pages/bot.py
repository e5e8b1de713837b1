"""`/account/bot`: linking one's Telegram; also a part of the account page."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from telegram_assistant.domain.access import Caller
from telegram_assistant.http.dependencies import CallerDep, ServicesDep
from telegram_assistant.http.web.page import page
from telegram_assistant.services.bot_link import BotAccount, Code

router = APIRouter(prefix="/account/bot", include_in_schema=False)


@router.get("")
async def show(request: Request, services: ServicesDep, caller: CallerDep) -> HTMLResponse:
    return await _shown(request, BotAccount(services, caller), caller)


@router.post("/code")
async def make_code(request: Request, services: ServicesDep, caller: CallerDep) -> HTMLResponse:
    account = BotAccount(services, caller)
    return await _shown(request, account, caller, await account.code())


@router.post("/unlink")
async def unlink(request: Request, services: ServicesDep, caller: CallerDep) -> HTMLResponse:
    account = BotAccount(services, caller)
    await account.unlink()
    return await _shown(request, account, caller)


async def _shown(request: Request, account: BotAccount, caller: Caller, code: Code | None = None) -> HTMLResponse:
    """Never kept by a browser: it may show a code."""
    state = await account.state()
    template = "bot_code.html" if "hx-request" in request.headers else "bot_code_page.html"
    answer = page(
        request, template, caller=caller, state=state, code=code, address=code.link(state.username) if code else None
    )
    answer.headers["Cache-Control"] = "no-store"
    return answer
