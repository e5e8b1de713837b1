"""The bot: linking one's Telegram, and the door that Telegram knocks at when it brings updates."""

from __future__ import annotations

import json
from datetime import datetime
from hmac import compare_digest
from typing import Annotated

from fastapi import APIRouter, Header, Request
from pydantic import BaseModel, Field

from telegram_assistant.http.answers import FromValue, example
from telegram_assistant.http.dependencies import CallerDep, ServicesDep
from telegram_assistant.services.bot_link import BotAccount, bot_id_of, webhook_secret
from telegram_assistant.services.bot_state import Inbox
from telegram_assistant.services.problems import Problem, bad_request, not_found

router = APIRouter(prefix="/bot", tags=["bot"])
outside = APIRouter(include_in_schema=False)


class BotAnswer(FromValue):
    """How you stand with the bot."""

    model_config = example(configured=True, username="our_news_bot", linked=True, blocked=False)

    configured: bool = Field(description="Whether this installation has a bot.")
    username: str | None = Field(description="Its name in Telegram, once it ran.")
    linked: bool = Field(description="Whether it knows your Telegram.")
    blocked: bool = Field(description="Whether you have blocked it there.")


class CodeAnswer(BaseModel):
    """Send it to the bot. It works once."""

    model_config = example(
        code="K7M2QXPA", expires_at="2026-11-15T12:10:00Z", link="https://t.me/our_news_bot?start=K7M2QXPA"
    )

    code: str
    expires_at: datetime
    link: str | None = Field(description="Opens the bot with the code filled in.")


@router.get("", operation_id="get_bot", summary="Whether the bot knows you")
async def get_bot(services: ServicesDep, caller: CallerDep) -> BotAnswer:
    return BotAnswer.model_validate(await BotAccount(services, caller).state())


@router.post("/code", status_code=201, operation_id="make_bot_code", summary="A code that links your Telegram")
async def make_code(services: ServicesDep, caller: CallerDep) -> CodeAnswer:
    """For ten minutes, in place of the last one. The Telegram user who sends it to the bot is you from then on."""
    account = BotAccount(services, caller)
    code = await account.code()
    return CodeAnswer(code=code.text, expires_at=code.expires_at, link=code.link((await account.state()).username))


@router.delete("/link", status_code=204, operation_id="unlink_bot", summary="The bot forgets your Telegram")
async def unlink(services: ServicesDep, caller: CallerDep) -> None:
    await BotAccount(services, caller).unlink()


@outside.post("/bot/webhook", status_code=200)
async def webhook(
    request: Request,
    services: ServicesDep,
    x_telegram_bot_api_secret_token: Annotated[str, Header(max_length=256)] = "",
) -> None:
    """Only written down here; the role `bot` answers. Telegram sends again what it gets no 200 for."""
    settings = services.settings
    if settings.telegram_bot_token is None or settings.bot_mode != "webhook":
        raise not_found("address")
    token = settings.telegram_bot_token.get_secret_value()
    chosen = settings.bot_webhook_secret.get_secret_value() if settings.bot_webhook_secret else None
    told = x_telegram_bot_api_secret_token.encode("utf-8", "replace")
    if not compare_digest(told, webhook_secret(token, chosen).encode()):
        raise Problem(401, "This is for Telegram")
    try:
        update = json.loads(await request.body())  # its length is limited, as that of every request
    except (ValueError, RecursionError) as exc:
        raise bad_request("This is no update") from exc
    if not isinstance(update, dict) or type(update.get("update_id")) is not int:
        raise bad_request("This is no update")
    await Inbox(services.redis, bot_id_of(token)).put(update)
