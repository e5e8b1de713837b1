"""The one Redis client of a process: async, text in and out (SPEC 7.1), with times converted here (SPEC 7.2)."""

from __future__ import annotations

import asyncio
from datetime import datetime
from pathlib import Path
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff
from redis.exceptions import AuthenticationError, RedisError

from telegram_assistant.errors import Fatal
from telegram_assistant.tls import distrust, verified_tls

OLDEST_SERVER = (7, 0)
CHECK_SECONDS = 10.0


def open_redis(url: str, *, ca_file: Path | None = None) -> Redis:
    """Make the client; nothing is connected yet. What rediss:// reaches is verified."""
    tls: dict[str, Any] = {}
    if ca_file is not None and url.strip().lower().startswith("rediss:"):
        verified_tls(ca_file)  # the client would look at the file when it connects
        tls = {"ssl_ca_certs": str(ca_file)}
    try:
        client: Redis = Redis.from_url(
            url,
            decode_responses=True,
            encoding_errors="replace",  # bytes that are no text must not keep a reader from all that follows them
            health_check_interval=30,
            socket_connect_timeout=5,
            retry=Retry(ExponentialBackoff(cap=1, base=0.05), retries=3),
            **tls,
        )
    except ValueError:
        # Without the cause: an unquoted / in a password makes a part of it look like a port, which the cause quotes.
        raise Fatal(
            "REDIS_URL must look like redis://:password@host:6379/0 (or rediss://, unix://), with / ? # in a password"
            " percent-encoded (%2F %3F %23)"
        ) from None
    return client


async def check_redis(url: str, *, ca_file: Path | None = None) -> None:
    """Connect once and say in one line what is wrong, if anything is."""
    client = open_redis(url, ca_file=ca_file)
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            version = str((await client.info("server"))["redis_version"])
    except TimeoutError as exc:
        raise Fatal("Cannot use REDIS_URL: no answer; is the address right, and is it a Redis?") from exc
    except AuthenticationError as exc:
        raise Fatal(f"Cannot use REDIS_URL: the password is wrong or missing ({exc})") from exc
    except (RedisError, OSError) as exc:
        why = distrust(exc) or f"{exc}; start that server, correct the address, or unset REDIS_URL"
        raise Fatal(f"Cannot use REDIS_URL: {why}") from exc
    finally:
        await client.aclose()
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_SERVER:
        raise Fatal(f"REDIS_URL is Redis {version}; version 7 or newer is needed")


def time_to_text(moment: datetime) -> str:
    """An aware time as Redis keeps it."""
    if moment.tzinfo is None:
        raise ValueError(f"naive time {moment!r}: every time here is aware")
    return moment.isoformat()


def text_of(value: bytes | str | None) -> str | None:
    """What the client gives is text, although its types cannot say so."""
    return value.decode() if isinstance(value, bytes) else value


def time_from_text(value: bytes | str | None) -> datetime | None:
    """The one place where a time comes back out of Redis."""
    text = text_of(value)
    if text is None:
        return None
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"naive time {value!r} in Redis: every time here is aware")
    return moment
