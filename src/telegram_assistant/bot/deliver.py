"""Alerts and digests to people who did not ask this moment: to whom they are linked, and not to who has blocked us."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from aiogram.types import InlineKeyboardMarkup
from markupsafe import escape

from telegram_assistant.bot.buttons import Digest as DigestButton
from telegram_assistant.bot.buttons import Mute, button, link_button, rows
from telegram_assistant.bot.digest_words import issue_text
from telegram_assistant.bot.messenger import Gone, Messenger
from telegram_assistant.bot.words import Say, lines, paragraphs, post_line, shortened
from telegram_assistant.domain.digests import Digest, Issue, Way
from telegram_assistant.domain.results import Shown
from telegram_assistant.errors import Reject
from telegram_assistant.jobs.digest_delivery import Parcel
from telegram_assistant.jobs.digest_desk import Shown as ShownIssue
from telegram_assistant.log import get_logger
from telegram_assistant.services.bot_state import Memory
from telegram_assistant.stores.postgres.telegram_users import TelegramUsers

LONGEST_TEXT = 1_000

log = get_logger(__name__)


class Outcome(StrEnum):
    """What became of a message."""

    SENT = "sent"
    NOT_LINKED = "not_linked"  # the user has no Telegram here, or is disabled
    BLOCKED = "blocked"  # they blocked the bot; nothing is sent until they write to it again


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertMessage:
    """A post that somebody wants to know of. `search_id`: of the saved search that found it, to mute it."""

    name: str
    post: Shown
    also: int = 0  # posts that tell the same
    search_id: UUID | None = None


class Delivery:
    """Every method raises Retry (with `after`, if Telegram names a time) when it should be tried again."""

    def __init__(self, messenger: Messenger, memory: Memory, accounts: TelegramUsers) -> None:
        self.messenger = messenger
        self._memory = memory
        self._accounts = accounts

    async def close(self) -> None:
        """Only for whoever opened it with `open_delivery`."""
        await self.messenger.bot.session.close()

    async def language(self, user_id: UUID) -> str:
        return await self._memory.language(user_id)

    async def send_alert(self, tenant_id: UUID, user_id: UUID, alert: AlertMessage) -> Outcome:
        say = Say(await self._memory.language(user_id))
        text = shortened(alert.post.text, LONGEST_TEXT) or say("wordless")
        told = say("alert_also", n=alert.also) if alert.also else ""
        html = paragraphs([lines(say("alert", name=alert.name), post_line(alert.post, say)), lines(escape(text), told)])
        mute = [button(say.plain("mute"), Mute(id=alert.search_id, muted=True))] if alert.search_id else []
        return await self.send(tenant_id, user_id, html, rows([link_button(say.plain("open"), alert.post.url), *mute]))

    async def send_digest(self, digest: Digest, issue: Issue, shown: ShownIssue, *, url: str | None = None) -> Outcome:
        """`url`: of the issue on the page."""
        say = Say(digest.wish.language)
        keyboard = rows(
            [button(say.plain("digest_older"), DigestButton(do="show", id=digest.id, at=1))],
            [link_button(say.plain("open"), url)] if url and url.startswith("https://") else [],
            [button(say.plain("digest_off"), DigestButton(do="off", id=digest.id))],
        )
        html = issue_text(digest.wish, issue.since, issue.until, shown, say)
        return await self.send(digest.tenant_id, digest.user_id, html, keyboard)

    async def send(
        self, tenant_id: UUID, user_id: UUID, html: str, keyboard: InlineKeyboardMarkup | None = None
    ) -> Outcome:
        """Markup of ours, everything in it escaped."""
        chat = await self._accounts.of_user(tenant_id, user_id)
        if chat is None:
            return Outcome.NOT_LINKED
        if await self._memory.has_blocked(user_id):
            return Outcome.BLOCKED
        try:
            await self.messenger.send(chat, html, keyboard)
        except Gone as exc:
            log.info("bot_blocked", user=str(user_id), reason=str(exc))
            await self._memory.blocks(user_id, blocked=True)
            return Outcome.BLOCKED
        return Outcome.SENT


class BotWay:
    """The way of digests to the bot, for the job that brings them (`jobs/digest_delivery.py`)."""

    name = Way.BOT.value

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery

    async def send(self, parcel: Parcel) -> None:
        """Raises Retry when it may work later, Reject with a sentence for the reader when it will not."""
        outcome = await self._delivery.send_digest(parcel.digest, parcel.issue, parcel.shown, url=parcel.page)
        if outcome is Outcome.NOT_LINKED:
            raise Reject("Your Telegram is not linked: link it on your account page")
        if outcome is Outcome.BLOCKED:
            raise Reject("You have blocked the bot: unblock it in Telegram and send it /start")
