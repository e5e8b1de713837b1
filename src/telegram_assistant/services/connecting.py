"""Connecting a Telegram account on the page: who may, how often, and what is wrong with what was typed."""

from __future__ import annotations

import re
from math import ceil

from telegram_assistant.domain.access import Caller
from telegram_assistant.services.connect_desk import Application, State, Wish
from telegram_assistant.services.problems import Problem, conflict, forbidden
from telegram_assistant.services.services import Services

BEGINNINGS, WITHIN = 6, 600.0  # conversations that may be begun, and in how many seconds
LONGEST_ANSWER = 256
BAD_ID = "The api_id is a number, as my.telegram.org shows it"
BAD_HASH = "The api_hash has 32 letters and digits, as my.telegram.org shows it"
BAD_PHONE = "This is no phone number: write it with the country code, like +79990000000"
_ID = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
_HASH = re.compile(r"[0-9a-f]{32}")
_PHONE = re.compile(r"\+?[0-9][0-9 ()-]{5,24}", re.ASCII)


class Connecting:
    """For the operator: the account reads for the whole installation."""

    def __init__(self, services: Services, caller: Caller) -> None:
        if not caller.is_operator:
            raise forbidden("Only an admin of the first tenant connects Telegram: the account reads for everyone here")
        if services.connecting is None:
            raise conflict("Telegram is connected where the pages are served: open them there")
        self._services = services
        self._caller = caller
        self.desk = services.connecting

    @property
    def state(self) -> State:
        return self.desk.state

    async def begin(self, api_id: str, api_hash: str, phone: str) -> State:
        """Raises a problem that says what is wrong with what was typed."""
        if not self.desk.can_connect:
            raise conflict(
                "This process cannot start anew by itself: set TELEGRAM_API_ID and TELEGRAM_API_HASH instead"
            )
        application = _application(api_id, api_hash) if self.desk.needs_application else None
        phone = phone.strip()
        if phone and not _PHONE.fullmatch(phone):
            raise Problem(422, BAD_PHONE)
        wait = ceil(await self._services.access.allow("connect", limit=BEGINNINGS, per=WITHIN))
        if wait:
            raise Problem(429, f"Too many attempts: wait {wait} s", headers={"Retry-After": str(wait)})
        await self._services.access.record(self._caller, "account_connecting", "phone" if phone else "QR code")
        self.desk.begin(Wish(application, phone))
        return self.state

    async def answer(self, text: str) -> State:
        if len(text) > LONGEST_ANSWER or not self.desk.answer(text):
            raise conflict("Nothing was asked: begin again")
        return self.state

    def end(self) -> State:
        self.desk.end()
        return self.state


def _application(api_id: str, api_hash: str) -> Application:
    number, text = api_id.strip(), api_hash.strip().lower()
    if not _ID.fullmatch(number):
        raise Problem(422, BAD_ID)
    if not _HASH.fullmatch(text):
        raise Problem(422, BAD_HASH)
    return Application(int(number), text)
