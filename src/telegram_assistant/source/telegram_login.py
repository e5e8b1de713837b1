"""Signing an account in: by QR code, or by phone, code and 2FA password. What comes of it is a string session."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias

from telethon import errors, events
from telethon.tl import functions, types

from telegram_assistant.domain.source import SourceError
from telegram_assistant.errors import Fatal
from telegram_assistant.source.telegram_client import AccountInfo, account_of
from telegram_assistant.source.telegram_errors import translated

Show: TypeAlias = Callable[[str], None]
Ask: TypeAlias = Callable[[str], Awaitable[str]]  # a prompt to show -> what the person typed

PATIENCE = 300.0  # seconds in which a QR code must be scanned
REQUEST_SECONDS = 30.0
ATTEMPTS = 3  # at a code or a password

_PASSWORD = "Two-step verification password"  # noqa: S105 - the prompt for one
_CODE = "Code that Telegram sent you"

WRONG = "That is not right. "  # stands before a prompt that is shown again

# What Telegram says, our name for it, and what a person is told.
_REFUSED: tuple[tuple[type[Exception], str, str], ...] = (
    (errors.PhoneNumberBannedError, "phone_banned", "Telegram has banned this phone number"),
    (
        errors.PhoneNumberInvalidError,
        "phone_invalid",
        "this is not a phone number; write it with the country code, like +79990000000",
    ),
    (
        errors.PhoneNumberUnoccupiedError,
        "phone_unknown",
        "no account of Telegram has this number; sign up in an app of Telegram first",
    ),
    (errors.PhoneCodeExpiredError, "code_expired", "the code has expired; begin again to get a new one"),
    (errors.UserDeactivatedBanError, "account_banned", "Telegram has banned this account"),
    (errors.UserDeactivatedError, "account_deleted", "this account was deleted"),
    (
        errors.ApiIdInvalidError,
        "application",
        "TELEGRAM_API_ID and TELEGRAM_API_HASH do not belong together; see my.telegram.org",
    ),
    (errors.PhoneNumberFloodError, "many_codes", "too many codes were asked for this number; try again tomorrow"),
    (errors.PhonePasswordFloodError, "many_passwords", "too many wrong passwords; try again later"),
)
REASONS = (*(reason for _, reason, _ in _REFUSED), "not_scanned", "code_wrong", "password_wrong")


class LoginError(Fatal):
    """Signing in failed; the text tells a person why, `reason` is one of `REASONS`."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class LoggedIn:
    """A session that opens the account: a secret as good as the password."""

    session: str
    account: AccountInfo

    def __repr__(self) -> str:
        return f"LoggedIn(account={self.account!r})"


async def login_by_qr(client: Any, show: Show, password: Ask, *, patience: float = PATIENCE) -> LoggedIn:
    """Show a `tg://login` address (again when it expires) until it is scanned."""
    async with _connected(client):
        scanned = asyncio.Event()

        async def on_scan(_update: Any) -> None:
            scanned.set()

        client.add_event_handler(on_scan, events.Raw(types.UpdateLoginToken))
        try:
            async with asyncio.timeout(patience):
                user = await _until_scanned(client, show, scanned)
        except errors.SessionPasswordNeededError:
            user = await _with_password(client, password)
        except TimeoutError as exc:
            raise LoginError("not_scanned", "the QR code was not scanned in time; begin again") from exc
        finally:
            client.remove_event_handler(on_scan)
        return _logged_in(client, user)


async def login_by_phone(client: Any, phone: str, code: Ask, password: Ask) -> LoggedIn:
    """Let Telegram send a code, and ask for it; and for the password where the account has one."""
    async with _connected(client):
        sent = await _in_time(client.send_code_request(phone))

        def sign_in(text: str) -> Awaitable[Any]:
            signing: Awaitable[Any] = client.sign_in(phone, text.strip(), phone_code_hash=sent.phone_code_hash)
            return signing

        try:
            user = await _retried(code, _CODE, errors.PhoneCodeInvalidError, sign_in)
        except errors.SessionPasswordNeededError:
            user = await _with_password(client, password)
        return _logged_in(client, user)


@asynccontextmanager
async def _connected(client: Any) -> AsyncIterator[None]:
    """Connect, say clearly what Telegram refuses, and disconnect in any case."""
    try:
        with translated("signing in"):
            await _in_time(client.connect())
            yield
    except SourceError as exc:
        for kind, reason, text in _REFUSED:
            if isinstance(exc.__cause__, kind):
                raise LoginError(reason, text) from exc
        raise
    finally:
        with suppress(asyncio.CancelledError):
            await client.disconnect()


async def _until_scanned(client: Any, show: Show, scanned: asyncio.Event) -> Any:
    while True:
        scanned.clear()
        answer = await client(functions.auth.ExportLoginTokenRequest(client.api_id, client.api_hash, []))
        if isinstance(answer, types.auth.LoginTokenMigrateTo):
            await client._switch_dc(answer.dc_id)  # noqa: SLF001 - Telethon's own QR login does it like this
            answer = await client(functions.auth.ImportLoginTokenRequest(answer.token))
        if isinstance(answer, types.auth.LoginTokenSuccess):
            return answer.authorization.user
        token = base64.urlsafe_b64encode(answer.token).decode().rstrip("=")
        show(f"tg://login?token={token}")
        left = (answer.expires - datetime.now(UTC)).total_seconds()
        with suppress(TimeoutError):
            await asyncio.wait_for(scanned.wait(), max(1.0, left))


async def _with_password(client: Any, password: Ask) -> Any:
    def sign_in(text: str) -> Awaitable[Any]:
        signing: Awaitable[Any] = client.sign_in(password=text)
        return signing

    return await _retried(password, _PASSWORD, errors.PasswordHashInvalidError, sign_in)


async def _retried(ask: Ask, prompt: str, wrong: type[Exception], attempt: Callable[[str], Awaitable[Any]]) -> Any:
    """Ask until it is right, but not for ever: Telegram punishes guessing."""
    said = prompt
    for _ in range(ATTEMPTS):
        given = await ask(said)
        if given.strip():
            try:
                return await _in_time(attempt(given))
            except wrong:
                pass
        said = WRONG + prompt
    what = "password" if prompt is _PASSWORD else "code"
    raise LoginError(f"{what}_wrong", f"the {what} was wrong {ATTEMPTS} times; begin again")


async def _in_time(request: Awaitable[Any]) -> Any:
    async with asyncio.timeout(REQUEST_SECONDS):
        return await request


def _logged_in(client: Any, user: Any) -> LoggedIn:
    return LoggedIn(client.session.save(), account_of(user))
