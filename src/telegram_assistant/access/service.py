"""Who calls with a key or a session, how people sign in, the links that set a password, and how often each is tried."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from math import ceil
from typing import Any
from uuid import UUID

from redis.asyncio import Redis
from redis.exceptions import RedisError
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.access.credentials import (
    Passwords,
    check_new_password,
    digest,
    is_token,
    key_prefix,
    new_token,
    parse_login,
    same,
)
from telegram_assistant.access.people import LINK_LASTS, People
from telegram_assistant.domain.access import SYSTEM_TENANT, Caller, Role, Via
from telegram_assistant.domain.text import clean_text
from telegram_assistant.errors import Reject, Retry
from telegram_assistant.log import get_logger
from telegram_assistant.names import rate_limit
from telegram_assistant.stores.postgres.credentials import Keys, Link, Links, NewSession, Sessions
from telegram_assistant.stores.postgres.users import AuditLog, Users

WRONG = "Wrong name or password"
SPENT = "This link was used already, or is too old: ask for a new one"
NO_LOGIN = "Choose a name to sign in with"
TAKEN = "This name is taken: choose another one"
LONGEST_AGENT = 300
WINDOW = timedelta(minutes=15).total_seconds()
PER_ADDRESS = 30  # attempts in a window
PER_LOGIN = 10  # from one address,
PER_LOGIN_ANYWHERE = 100  # and from all: few enough to guess nothing, enough not to be locked out by a stranger

# Kept is the moment at which the bucket is full again. Arguments: now, room of one, room of all; in milliseconds.
_TAKE = """
local now, one, all = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local full = math.max(now, tonumber(redis.call('GET', KEYS[1]) or '0')) + one
if full - now > all + 0.5 then return math.ceil(full - now - all) end
redis.call('SET', KEYS[1], string.format('%.3f', full), 'PX', math.ceil(full - now) + 1000)
return 0
"""

log = get_logger(__name__)


class Access:
    """One for a process. Nothing is cached: what is revoked or disabled is so at once, everywhere."""

    def __init__(
        self,
        database: AsyncEngine,
        redis: Redis,
        clock: Callable[[], datetime],
        *,
        passwords: Passwords | None = None,
    ) -> None:
        self._clock = clock
        self._passwords = passwords or Passwords()
        self._redis = redis
        self._take = redis.register_script(_TAKE)
        self._users = Users(database)
        self._keys = Keys(database)
        self._sessions = Sessions(database)
        self._links = Links(database)
        self._log = AuditLog(database)
        self.people = People(database, clock)

    async def by_key(self, token: str) -> Caller | None:
        """Who calls with this API key. It gives no more rights than its user has now."""
        prefix = key_prefix(token)
        if prefix is None:
            return None
        now = self._clock()
        holder = await self._keys.holder(prefix, now=now)
        if holder is None or not same(digest(token), holder.sha256):
            return None
        await self._keys.used(holder, now=now)
        is_admin = holder.key_role is Role.ADMIN and holder.user_role is Role.ADMIN
        return Caller(
            tenant_id=holder.tenant_id,
            tenant=holder.tenant,
            user_id=holder.user_id,
            name=holder.name,
            role=Role.ADMIN if is_admin else Role.MEMBER,
            via=Via.KEY,
            key_ends=holder.expires_at,
        )

    async def by_session(self, cookie: str) -> Caller | None:
        """Who the session of this cookie belongs to; it lasts on with each use."""
        if not is_token(cookie):
            return None
        holder = await self._sessions.holder(digest(cookie), now=self._clock())
        if holder is None:
            return None
        return Caller(
            tenant_id=holder.tenant_id,
            tenant=holder.tenant,
            user_id=holder.user_id,
            name=holder.name,
            role=holder.role,
            via=Via.SESSION,
            csrf=holder.csrf,
        )

    async def sign_in(self, login: str, password: str, *, address: str, user_agent: str = "") -> str:
        """The cookie of a new session. Reject: wrong; Retry: too many attempts."""
        login = clean_text(login).strip().lower()
        pair = await self._count_attempt(login, address)
        found = await self._users.sign_in(login)
        known = None if found is None else found.password_hash
        verdict = await self._passwords.verify(password, known)
        if found is None or known is None or not verdict.right:
            # For an unknown name too: the time that it takes must not tell which names there are.
            owner = UUID(SYSTEM_TENANT) if found is None else found.tenant_id
            user_id = None if found is None else found.user_id
            await self._log.add(owner, user_id, "sign_in_failed", address=address, now=self._clock())
            raise Reject(WRONG)
        if verdict.new_hash is not None:
            await self._users.set_hash(found.user_id, verdict.new_hash, instead_of=known)
        await self._forgive(pair)
        cookie, session = self._new_session(user_agent)
        await self._sessions.begin(found.tenant_id, found.user_id, session)
        await self._log.add(found.tenant_id, found.user_id, "signed_in", address=address, now=self._clock())
        return cookie

    async def sign_out(self, cookie: str) -> None:
        if is_token(cookie):
            await self._sessions.end(digest(cookie))

    async def sign_out_everywhere(self, caller: Caller) -> int:
        """How many sessions it were, this one too. Keys stay."""
        ended = await self._sessions.end_all(caller.tenant_id, caller.user_id)
        await self.record(caller, "signed_out_everywhere", details={"sessions": ended})
        return ended

    async def first_link(self) -> str | None:
        """The token of a link for the first admin, in place of the last one; None once a user has a password."""
        token = new_token()
        made = await self._links.add_first(sha256=digest(token), expires=self._clock() + LINK_LASTS)
        return token if made else None

    async def link(self, token: str) -> Link | None:
        """Whose one-time link this is, if it can be used."""
        return await self._links.open(digest(token), now=self._clock()) if is_token(token) else None

    async def redeem(
        self, token: str, login: str | None, password: str, *, address: str = "", user_agent: str = ""
    ) -> str:
        """Use a one-time link: set login and password, end all sessions, and begin one. Its cookie comes back."""
        await self._limit(f"redeem:{_short(address)}", PER_ADDRESS)
        link = await self.link(token)
        if link is None:
            raise Reject(SPENT)
        if login is None and link.login is None:
            raise Reject(NO_LOGIN)
        check_new_password(password)
        parsed = None if login is None else parse_login(login)
        password_hash = await self._passwords.hash(password)
        cookie, session = self._new_session(user_agent)
        done = await self._links.use(digest(token), login=parsed, password_hash=password_hash, session=session)
        if done is None:
            raise Reject(SPENT)
        if not done:
            raise Reject(TAKEN)
        details, now = {"link": link.purpose}, self._clock()
        await self._log.add(link.tenant_id, link.user_id, "password_set", details=details, address=address, now=now)
        return cookie

    async def allow(self, key: str, *, limit: int, per: float) -> float:
        """Seconds to wait; 0: go on, and it is counted. `limit` at once, then evenly over `per` seconds.

        Without Redis everything is allowed: better too much for a while than nothing at all.
        """
        now = self._clock().timestamp() * 1000
        arguments = [f"{now:.3f}", f"{per * 1000 / limit:.3f}", f"{per * 1000:.3f}"]
        try:
            wait = await self._take(keys=[rate_limit(key)], args=arguments)
        except (RedisError, OSError) as exc:
            log.warning("limits_without_redis", error=str(exc))
            return 0.0
        return int(wait) / 1000

    async def record(
        self, caller: Caller, action: str, target: str = "", details: Mapping[str, Any] | None = None
    ) -> None:
        """Write down what a user did. Never put a secret into it."""
        await self._log.add(caller.tenant_id, caller.user_id, action, target=target, details=details, now=self._clock())

    def _new_session(self, user_agent: str) -> tuple[str, NewSession]:
        """Always a new secret: one that came from outside could be known to others."""
        cookie = new_token()
        agent = clean_text(user_agent)[:LONGEST_AGENT]
        return cookie, NewSession(digest(cookie), new_token(), agent, self._clock())

    async def _count_attempt(self, login: str, address: str) -> str:
        pair = f"sign-in:{_short(address)}:{_short(login)}"
        await self._limit(f"sign-in:{_short(address)}", PER_ADDRESS)
        await self._limit(pair, PER_LOGIN)
        await self._limit(f"sign-in:login:{_short(login)}", PER_LOGIN_ANYWHERE)
        return pair

    async def _forgive(self, key: str) -> None:
        """What was counted is forgotten."""
        try:
            await self._redis.delete(rate_limit(key))
        except (RedisError, OSError) as exc:
            log.warning("limits_without_redis", error=str(exc))

    async def _limit(self, key: str, limit: int) -> None:
        wait = await self.allow(key, limit=limit, per=WINDOW)
        if wait > 0:
            raise Retry(f"Too many attempts: try again in {ceil(wait)} s", after=wait)


def _short(text: str) -> str:
    """A key of Redis from what a stranger typed: short, and without the text itself."""
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:24]
