"""What is sent to the address of a stranger: one POST, signed, to public addresses only, never redirected."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import ssl
from collections.abc import Callable
from datetime import datetime

from telegram_assistant.crawl.json_post import SECONDS, Poster
from telegram_assistant.crawl.network import Resolver, ask_system
from telegram_assistant.domain.urls import NO_HOSTS, Allowance, Url
from telegram_assistant.errors import Reject, Retry

SIGNATURE = "X-TGA-Signature"
LONGEST_URL = 2_000


def new_secret() -> str:
    return f"whsec_{secrets.token_urlsafe(32)}"


def signature(secret: str, moment: datetime, body: bytes) -> str:
    """`t=<seconds>,v1=<HMAC-SHA256 of "<seconds>.<body>">`: an old request cannot be sent again as a new one."""
    seconds = str(int(moment.timestamp()))
    signed = hmac.new(secret.encode(), f"{seconds}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={seconds},v1={signed}"


class Webhooks:
    """Sends."""

    def __init__(
        self,
        *,
        agent: str,
        clock: Callable[[], datetime],
        allow: Allowance = NO_HOSTS,
        resolve: Resolver = ask_system,
        tls: ssl.SSLContext | None = None,
        seconds: float = SECONDS,
    ) -> None:
        self._clock = clock
        self._poster = Poster(agent=agent, allow=allow, resolve=resolve, tls=tls, seconds=seconds)

    def checked(self, text: str) -> str:
        """The address as it will be asked. Raises Reject for one that never will be."""
        return str(self._permitted(text))

    async def send(self, url: str, secret: str, body: bytes) -> int:
        """The status of the answer, always 2xx. Raises Retry; Reject where another try would be the same."""
        here = self._permitted(url)
        signed = {SIGNATURE: signature(secret, self._clock(), body)}
        status = (await self._poster.post(here, body, signed, read=False)).status
        if 300 <= status < 400:
            raise Retry(f"{here.host} answered {status}: redirects are not followed")
        if not 200 <= status < 300:
            raise Retry(f"{here.host} answered {status}")
        return status

    def _permitted(self, text: str) -> Url:
        if len(text) > LONGEST_URL:
            raise Reject(f"the address is longer than {LONGEST_URL} characters")
        return self._poster.permitted(text)
