"""What strangers do to us: messages of unknown types, pictures, other tenants, questions that are never answered."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

import psutil

from faults.catalogue.pipeline import models_silent
from faults.installation import Installation
from faults.trial import Fault, Scope
from telegram_assistant.access.people import People, system_caller
from telegram_assistant.domain.access import Role

SECRETS = (b"TGA_SECRET_KEY", b"TELEGRAM_API_HASH", b"DATABASE_URL")
MOST_REQUESTS = 40  # about one channel, while one message of it cannot be read
ASK_SECONDS = 90.0  # AI_TIMEOUT_SEC and a half
PRIORITY = 49
OURS = {"priority": 3, "timezone": "Europe/Paris"}


@asynccontextmanager
async def unknown_type(lane: Installation) -> AsyncIterator[None]:
    """A message of a type that no client knows; what comes after it must come in."""
    channel = lane.telegram.channels[5]
    lane.telegram.spoil(channel)
    lane.telegram.post(channel)
    lane.telegram.simulator.rpc_log.clear()
    await lane.change("UPDATE channels SET next_visit_at = now() WHERE id = :id", id=channel.id)
    yield


async def bisected_anew(lane: Installation) -> str | None:
    asked = sum(str(lane.telegram.channels[5].id) in call.args for call in lane.telegram.simulator.rpc_log)
    return f"{asked} requests about one channel" if asked > MOST_REQUESTS else None


@asynccontextmanager
async def picture(lane: Installation) -> AsyncIterator[None]:
    """A stranger's picture is taken apart by a process of its own."""
    lane.telegram.picture(lane.telegram.channels[7])
    yield


async def secrets_of_children(lane: Installation) -> str | None:
    """A process that reads strangers' data has none of our secrets."""
    for child in psutil.Process(lane.pid("up", "worker")).children(recursive=True):
        environment = Path(f"/proc/{child.pid}/environ").read_bytes()
        if found := [name.decode() for name in SECRETS if name in environment]:
            return f"{' '.join(child.cmdline()[-1:])} knows {', '.join(found)}"
    return None


@asynccontextmanager
async def another_tenant(lane: Installation) -> AsyncIterator[None]:
    """We have settings of our own for a channel; the admin of another tenant that watches it too changes its own."""
    people = People(lane.database, lambda: datetime.now(UTC))
    channel = lane.telegram.channels[9]
    address = f"http://127.0.0.1:{lane.environment['API_PORT']}/api/v1/channels/{channel.id}"
    await lane.change(
        "INSERT INTO subscriptions (tenant_id, user_id, channel_id) SELECT tenant_id, id, :channel FROM users LIMIT 1",
        channel=channel.id,
    )
    (await lane.http.patch(address, json=OURS)).raise_for_status()
    tenant = await people.add_tenant(f"other-{datetime.now(UTC):%H%M%S}")
    caller = system_caller(tenant)
    user = (await people.invite(caller, name="Other", role=Role.ADMIN)).user
    key = (await people.create_key(caller, name="other", role=Role.ADMIN, user_id=user.id)).token
    await lane.change(
        "INSERT INTO subscriptions (tenant_id, user_id, channel_id) VALUES (:tenant, :user, :channel)",
        tenant=tenant.id,
        user=user.id,
        channel=channel.id,
    )
    answer = await lane.http.patch(
        address,
        json={"priority": PRIORITY, "timezone": "Asia/Tokyo"},
        headers={"Authorization": f"Bearer {key}"},
    )
    answer.raise_for_status()
    theirs = (await lane.http.get(address, headers={"Authorization": f"Bearer {key}"})).json()
    if theirs["priority"] != PRIORITY:
        raise RuntimeError(f"their own settings are not what they asked for: {theirs}")
    yield


async def changed_for_all(lane: Installation) -> str | None:
    channel = lane.telegram.channels[9]
    address = f"http://127.0.0.1:{lane.environment['API_PORT']}/api/v1/channels/{channel.id}"
    found = (await lane.http.get(address)).raise_for_status().json()
    mine = {name: found[name] for name in OURS}
    return None if mine == OURS else f"one tenant changed a channel for another: {mine}"


async def answered(lane: Installation) -> str | None:
    """A question to a model that never answers ends within its time."""
    began = monotonic()
    answer = await lane.http.post(
        f"http://127.0.0.1:{lane.environment['API_PORT']}/api/v1/ask",
        json={"question": "What is new about the railway?"},
        timeout=200.0,
    )
    took = monotonic() - began
    if took > ASK_SECONDS:
        raise RuntimeError(f"the question took {took:.0f} s")
    return f"a question was answered with {answer.status_code} after {took:.0f} s"


FAULTS = (
    Fault(
        name="A message of an unknown type",
        mark="N26",
        scope=Scope.NOTHING,
        broken=unknown_type,
        lasts=60,
        proof=bisected_anew,
    ),
    Fault(
        name="A stranger's picture",
        mark="N21",
        scope=Scope.NOTHING,
        broken=picture,
        lasts=40,
        proof=secrets_of_children,
    ),
    Fault(
        name="Another tenant changes a shared channel",
        mark="N17",
        scope=Scope.NOTHING,
        broken=another_tenant,
        lasts=5,
        proof=changed_for_all,
    ),
    Fault(
        name="A question to a model that answers nothing",
        mark="N20",
        scope=Scope.STAGE,
        broken=models_silent,
        notice=answered,
    ),
)
