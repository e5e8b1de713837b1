"""A Telegram account is connected on the page: as with `tga login`, but asked and answered over several requests.

One conversation at a time. A supervised job leads it, so that a page that is closed leaves nothing open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from telegram_assistant.bus.supervisor import Task
from telegram_assistant.domain.source import SourceError
from telegram_assistant.errors import AssistantError
from telegram_assistant.log import get_logger
from telegram_assistant.terminal import first_of

ANSWER_SECONDS = 300.0  # that a person has for a code or a password

log = get_logger(__name__)


class Stage(StrEnum):
    """How far a conversation is."""

    NONE = "none"
    WORKING = "working"  # Telegram is being asked
    QR = "qr"
    CODE = "code"
    PASSWORD = "password"  # noqa: S105 - what is asked for, not one
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Application:
    """Which application signs in: Telegram gives everyone an id and a hash at my.telegram.org."""

    api_id: int
    api_hash: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class State:
    """What the page shows."""

    stage: Stage = Stage.NONE
    address: str = field(default="", repr=False)  # of the QR code
    wrong: bool = False  # what was typed before was not right
    reason: str = ""  # why it failed: a key of the texts
    seconds: int = 0  # to wait, where that is the reason
    error: str = ""  # the same in English
    account: str = ""
    starts_anew: bool = False  # to take the account up


@dataclass(frozen=True, slots=True)
class Wish:
    """What a conversation is begun with; without a phone number it shows a QR code."""

    application: Application | None  # None: that of the settings
    phone: str


class Talk:
    """What leads a conversation asks here; the page shows it, and brings the answers."""

    def __init__(self, desk: ConnectDesk) -> None:
        self._desk = desk

    def show(self, address: str) -> None:
        self._desk.state = State(Stage.QR, address=address)

    async def code(self, _prompt: str) -> str:
        return await self._desk.ask(Stage.CODE)

    async def password(self, _prompt: str) -> str:
        return await self._desk.ask(Stage.PASSWORD)


# Signs in and stores the account; its name, and whether this process starts anew to take it up.
SignIn = Callable[[Wish, Talk], Awaitable[tuple[str, bool]]]


class ConnectDesk:
    """A supervised job, and what the page asks it. Nothing of it is kept: what counts is the stored account."""

    def __init__(self, sign_in: SignIn, restart: Callable[[], None] | None, *, needs_application: bool) -> None:
        self.state = State()
        self.needs_application = needs_application
        self._sign_in = sign_in
        self._restart = restart
        self._wish: Wish | None = None
        self._begun = asyncio.Event()
        self._answer: asyncio.Future[str] | None = None
        self._asked: Stage | None = None

    @property
    def can_connect(self) -> bool:
        """From the demo an account is reached only by a new start, which one process of several cannot decide."""
        return self._restart is not None or not self.needs_application

    async def run(self, task: Task) -> None:
        task.ready()
        while True:
            await self._begun.wait()
            self._begun.clear()
            wish, self._wish = self._wish, None
            if wish is not None:
                await first_of(self._converse(wish), self._begun)

    def begin(self, wish: Wish) -> None:
        """In place of the conversation before."""
        self._wish, self.state, self._asked = wish, State(Stage.WORKING), None
        self._begun.set()

    def end(self) -> None:
        self._wish, self.state = None, State()
        self._begun.set()

    async def ask(self, stage: Stage) -> str:
        """Asked twice for the same: the first answer was wrong."""
        self._answer = asyncio.get_running_loop().create_future()
        self.state, self._asked = State(stage, wrong=self._asked is stage), stage
        async with asyncio.timeout(ANSWER_SECONDS):
            return await self._answer

    def answer(self, text: str) -> bool:
        """False: nothing was asked."""
        if self._answer is None or self._answer.done():
            return False
        self._answer.set_result(text)
        self.state = replace(self.state, stage=Stage.WORKING)
        return True

    async def _converse(self, wish: Wish) -> None:
        try:
            account, starts_anew = await self._sign_in(wish, Talk(self))
        except TimeoutError:
            self.state = State(Stage.FAILED, reason="not_answered", error="nothing was typed in time; begin again")
        except SourceError as exc:
            seconds = int(exc.flood_seconds or 0)
            self.state = State(Stage.FAILED, reason="flood" if seconds else "away", seconds=seconds, error=str(exc))
        except AssistantError as exc:
            self.state = State(Stage.FAILED, reason=str(getattr(exc, "reason", "")), error=str(exc))
        else:
            self.state = State(Stage.DONE, account=account, starts_anew=starts_anew)
            if starts_anew and self._restart is not None:
                self._restart()
        if self.state.stage is Stage.FAILED:
            log.warning("account_not_connected", reason=self.state.error)
