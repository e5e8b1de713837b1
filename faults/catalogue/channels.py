"""Faults of one channel: they must be told of that channel, and the others go on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from faults.installation import Installation
from faults.trial import Break, Fault, Scope
from telegram_simulator.faults import Fault as Rule
from telegram_simulator.model import Channel, Message


async def soonest(lane: Installation) -> Channel:
    """The channel whose promise, taken twice, ends first."""
    rows = await lane.rows(
        "SELECT id FROM channels WHERE status = 'active' AND id = ANY(:ours)"
        " ORDER BY promised_at + (promised_at - coalesce(last_success_at, created_at)) LIMIT 1",
        ours=list(lane.telegram.world.channels),
    )
    lane.victim = rows[0].id
    return lane.telegram.world.channels[lane.victim]


def ruled(action: str, *, code: int = 500, message: str = "") -> Break:
    """Whatever is asked about this channel goes wrong."""

    @asynccontextmanager
    async def broken(lane: Installation) -> AsyncIterator[None]:
        channel = await soonest(lane)
        rules = [
            Rule(action, method, channel=channel.id, code=code, message=message)
            for method in ("messages.*", "channels.*", "updates.getChannelDifference")
        ]
        lane.telegram.simulator.faults.add(*rules)
        try:
            yield
        finally:
            for rule in rules:
                lane.telegram.simulator.faults.remove(rule)
            await _revived(lane, channel.id)

    return broken


async def _revived(lane: Installation, channel_id: int) -> None:
    """What an operator does when a channel is there again: `tga channels visit`."""
    await lane.change(
        "UPDATE channels SET status = 'active', failures = 0, next_visit_at = now() WHERE id = :id", id=channel_id
    )


@asynccontextmanager
async def deleted(lane: Installation) -> AsyncIterator[None]:
    """The channel is no more: nothing of it can be read, and its posts stay."""
    channel = await soonest(lane)
    world = lane.telegram.world
    name = channel.username
    world.rename(channel, None)
    del world.channels[channel.id]
    yield
    world.channels[channel.id] = channel
    world.rename(channel, name)
    await _revived(lane, channel.id)


@asynccontextmanager
async def another_owner_of_the_name(lane: Installation) -> AsyncIterator[None]:
    """Posts of the new owner must never appear among those of the channel that we watch."""
    channel = await soonest(lane)
    world, name = lane.telegram.world, channel.username
    other = world.add_channel(
        Channel(channel.id + 5_000_000, 77, "Another owner", None, datetime.now(UTC), members=set())
    )
    world.rename(channel, f"{name}_now")
    world.rename(other, name)
    world.post(other, Message(1, datetime.now(UTC), "Nothing of this was asked for, and nobody watches it."))
    del world.channels[other.id]  # it is there by its name, and no part of what must be captured
    await lane.change("UPDATE channels SET next_visit_at = now() WHERE id = :id", id=channel.id)
    yield


@asynccontextmanager
async def unknown_time_zone(lane: Installation) -> AsyncIterator[None]:
    channel = await soonest(lane)
    await lane.change("UPDATE channels SET timezone = 'Europe/Nowhere' WHERE id = :id", id=channel.id)
    yield
    await lane.change("UPDATE channels SET timezone = 'Europe/Moscow' WHERE id = :id", id=channel.id)
    await _revived(lane, channel.id)


async def odd_row(lane: Installation) -> str | None:
    """The channel is read on with another zone, so this is a note on the health page and no trouble."""
    for details in await lane.health():
        for one in details.get("rows", {}).get("odd_rows", ()):
            return f"{one['channel']}: {one['trouble']}"
    return None


FAULTS = (
    Fault(
        name="A channel turns private",
        scope=Scope.CHANNEL,
        broken=ruled("error", code=400, message="CHANNEL_PRIVATE"),
        says="faults_",
    ),
    Fault(name="A channel is deleted", scope=Scope.CHANNEL, broken=deleted, says="faults_"),
    Fault(name="A channel fails with every request", scope=Scope.CHANNEL, broken=ruled("error"), says="faults_"),
    Fault(name="A channel never answers", mark="N1", scope=Scope.CHANNEL, broken=ruled("silence"), says="faults_"),
    Fault(
        name="A username changes hands",
        scope=Scope.NOTHING,
        broken=another_owner_of_the_name,
        lasts=20,
        replaced=True,
    ),
    Fault(
        name="A channel has a time zone that does not exist",
        mark="N7",
        scope=Scope.CHANNEL,
        broken=unknown_time_zone,
        notice=odd_row,
    ),
)
