"""Faults of Telegram: of all of it, of one account, of one channel."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from faults.catalogue.channels import FAULTS as OF_CHANNELS
from faults.installation import SECRET, Installation
from faults.trial import Break, Fault, Scope
from telegram_assistant.stores.postgres.accounts import TelegramAccounts
from telegram_assistant.stores.sealed import Sealer
from telegram_simulator.faults import Fault as Rule
from telegram_simulator.model import Channel

WAIT = 400.0  # seconds; Telegram never shortens one, and neither do we
BUT_HISTORY = ("contacts.*", "channels.*", "upload.*")
OUTAGE = "telegram"


@asynccontextmanager
async def silent(lane: Installation) -> AsyncIterator[None]:
    """Connections stay open, nothing is answered: what SIGSTOP on the other side looks like."""
    lane.telegram.gate.silence()
    yield
    await lane.telegram.gate.open()


@asynccontextmanager
async def gone(lane: Installation) -> AsyncIterator[None]:
    await lane.telegram.gate.stop()
    yield
    await lane.telegram.gate.open()


def ruled(*rules: Rule, account: bool = False) -> Break:
    """The simulator answers by these rules, all accounts or the first one."""

    @asynccontextmanager
    async def broken(lane: Installation) -> AsyncIterator[None]:
        book = lane.telegram.simulator.faults
        user = min(lane.telegram.world.users) if account else None
        mine = [Rule(rule.action, rule.method, user=user, seconds=rule.seconds, code=rule.code, message=rule.message)
                for rule in rules]  # fmt: skip
        book.add(*mine)
        try:
            yield
        finally:
            for rule in mine:
                book.remove(rule)
            await _forgiven(lane)

    return broken


async def _forgiven(lane: Installation) -> None:
    """Who was signed out is signed in again, as `tga login` does it."""
    store = TelegramAccounts(lane.database, Sealer(SECRET))
    ended = {account.telegram_user_id for account in await store.all() if account.status != "active"}
    for user in [user for user in lane.telegram.world.users.values() if user.id in ended]:
        session = lane.telegram.session(user.id)
        await store.add(telegram_user_id=user.id, name=user.first_name, session=session)


def flooded(method: str, *, seconds: float, account: bool = False) -> Break:
    return ruled(Rule("flood", method, seconds=seconds), account=account)


@asynccontextmanager
async def no_history(lane: Installation) -> AsyncIterator[None]:
    """A page that no visit asks for is not missed: some channels are due, as in any installation that ran for an hour.
    One that just started visits all of them together every five minutes."""
    async with ruled(Rule("silence", "messages.getHistory"))(lane):
        due = [channel.id for channel in lane.telegram.channels[::10]]
        await lane.change("UPDATE channels SET next_visit_at = now() WHERE id = ANY(:due)", due=due)
        yield


@asynccontextmanager
async def flooded_but_history(lane: Installation) -> AsyncIterator[None]:
    """Files wait, of channels of every account, and a channel that was asked for by its name."""
    async with ruled(*(Rule("flood", method, seconds=WAIT) for method in BUT_HISTORY))(lane):
        for user in lane.telegram.world.users:
            for channel in [one for one in lane.telegram.channels if user in one.members][:2]:
                lane.telegram.post(channel, with_file=True)
        name = await asked_for(lane)
        yield
    if not await lane.rows("SELECT 1 FROM channel_requests WHERE reference = :name", name=name):
        raise RuntimeError("what was asked for is forgotten")


async def asked_for(lane: Installation) -> str:
    """A further channel with posts, which a person asks for."""
    world, now = lane.telegram.world, datetime.now(UTC)
    number = len(world.channels) + 1
    name = f"faults_asked_{number}"
    channel = Channel(min(world.channels) + 3_000_000 + number, 6, "Asked for", name, now - timedelta(days=9))
    world.add_channel(channel)
    lane.telegram.post(channel)
    await lane.change(
        "INSERT INTO channel_requests (tenant_id, user_id, reference) SELECT tenant_id, id, :name FROM users LIMIT 1",
        name=name,
    )
    return name


def refused(message: str, code: int) -> Break:
    """One account may do nothing any more."""
    return ruled(Rule("error", "*", code=code, message=message), account=True)


@asynccontextmanager
async def changed_while_away(lane: Installation) -> AsyncIterator[None]:
    """Old posts are edited and deleted while no connection is there."""
    await lane.telegram.gate.stop()
    for channel in lane.telegram.channels[:12]:
        first, second = list(channel.messages)[:2]
        lane.telegram.world.edit(channel, first, f"{lane.telegram.text()} Corrected.")
        lane.telegram.world.delete(channel, [second])
    yield
    await lane.telegram.gate.open()


@asynccontextmanager
async def last_tick_in_future(lane: Installation) -> AsyncIterator[None]:
    ahead = datetime.now(UTC) + timedelta(days=1)
    await lane.redis.set("scheduler:last_tick", ahead.isoformat())
    yield


@asynccontextmanager
async def visits_tomorrow(lane: Installation) -> AsyncIterator[None]:
    """What a clock that was a day ahead leaves behind."""
    await lane.change("UPDATE channels SET next_visit_at = now() + interval '1 day'")
    yield


FAULTS = (
    Fault(name="Telegram answers nothing", mark="N1", scope=Scope.SYSTEM, broken=silent, says=OUTAGE, quick=True),
    Fault(name="Telegram is gone", mark="N23", scope=Scope.SYSTEM, broken=gone, says=OUTAGE),
    Fault(
        name="Telegram answers no request for history",
        mark="N1",
        scope=Scope.SYSTEM,
        broken=no_history,
        says="telegram|getHistory|overdue",
    ),
    Fault(
        name="Telegram answers every request with an error",
        mark="N23",
        scope=Scope.SYSTEM,
        broken=ruled(Rule("error", "*", code=500, message="INTERNAL")),
        says=OUTAGE,
    ),
    Fault(
        name="All accounts must wait for history",
        mark="N3",
        scope=Scope.SYSTEM,
        broken=flooded("messages.getHistory", seconds=WAIT),
        says="flood|wait",
    ),
    Fault(
        name="All accounts must wait for every method but history",
        mark="N3",
        scope=Scope.SYSTEM,
        broken=flooded_but_history,
        says="flood|wait",
    ),
    Fault(
        name="One account must wait for history",
        mark="N3",
        scope=Scope.ACCOUNT,
        broken=flooded("messages.getHistory", seconds=WAIT, account=True),
        says="Reader 1|account",
    ),
    Fault(
        name="The session of one account is revoked",
        mark="N28",
        scope=Scope.ACCOUNT,
        broken=refused("SESSION_REVOKED", 401),
        says="Reader 1",
    ),
    Fault(
        name="The key of one account was used twice",
        mark="N11",
        scope=Scope.ACCOUNT,
        broken=refused("AUTH_KEY_DUPLICATED", 406),
        says="Reader 1",
    ),
    Fault(
        name="One account is banned",
        scope=Scope.ACCOUNT,
        broken=refused("USER_DEACTIVATED_BAN", 401),
        says="Reader 1",
    ),
    Fault(
        name="Telegram sends no live updates",
        mark="N5",
        scope=Scope.NOTHING,
        broken=ruled(Rule("push_lose", "push.*")),
        lasts=60,
    ),
    Fault(
        name="Posts are edited and deleted while we are away",
        mark="N25",
        scope=Scope.NOTHING,
        broken=changed_while_away,
        lasts=20,
    ),
    Fault(
        name="The last tick lies a day ahead",
        mark="N2",
        scope=Scope.SYSTEM,
        broken=last_tick_in_future,
        says="clock|ahead|future|scheduler",
    ),
    Fault(
        name="All visits are planned for tomorrow",
        mark="N2",
        scope=Scope.SYSTEM,
        broken=visits_tomorrow,
        says="clock|ahead|future|overdue|visit",
    ),
    *OF_CHANNELS,
)
