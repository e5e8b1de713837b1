"""G7 for every operation of the API: its own tenant, another one, nobody, and the wrong role.

The operations come from the OpenAPI document and the rights from the routes themselves: what is added later is tested
too, or fails here until its samples are given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import httpx
import pytest
from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from telegram_assistant.http import api as routes
from telegram_assistant.http.app import PREFIX
from telegram_assistant.http.dependencies import get_admin, get_caller
from tests.integration.api.samples import BODIES, QUERIES, Belongings, belongings_of
from tests.integration.search.archive import NEWS

pytestmark = pytest.mark.integration

Client = Callable[..., httpx.AsyncClient]
Town = Any  # of conftest.py, which cannot be imported

OPEN = {"get_health"}  # says only whether it is well
BY_SIGNATURE = {"get_media", "get_thumbnail"}  # a signed address instead of a credential; see test_media.py
# There is no bot, no receiver and no capture; see their own tests.
NOT_HERE = {"list_followed", "make_bot_code", "try_webhook"}
# They speak of everybody: see test_stages.py and test_digests.py.
OF_THE_SYSTEM = {"get_health_details", "list_job_runs", "list_jobs", "run_job"}
STREAMS = {"follow_events"}  # goes on for ever; see test_events.py


@dataclass(frozen=True)
class Operation:
    """One of them, as its route says."""

    name: str
    method: str
    path: str
    for_admins: bool
    parameters: tuple[str, ...]

    def address(self, own: Belongings) -> str:
        values = {name: own.value(name, self.name) for name in self.parameters}
        return self.path.format(**values)


def dependencies(dependant: Dependant) -> Iterator[Any]:
    for one in dependant.dependencies:
        yield one.call
        yield from dependencies(one)


def operations(app: FastAPI) -> list[Operation]:
    found: list[Operation] = []
    for route in (route for router in routes.ROUTERS for route in router.routes):
        assert isinstance(route, APIRoute)
        needs = set(dependencies(route.dependant))
        assert needs & {get_caller, get_admin} or route.operation_id in OPEN | BY_SIGNATURE, route.path
        names = tuple(parameter.name for parameter in route.dependant.path_params)
        nested = {p.name for d in all_of(route.dependant) for p in d.path_params}
        parameters = tuple(sorted({*names, *nested}))
        found += [
            Operation(str(route.operation_id), method, PREFIX + route.path, get_admin in needs, parameters)
            for method in sorted(route.methods or ())
        ]
    documented = {one["operationId"] for path in app.openapi()["paths"].values() for one in path.values()}
    assert documented == {operation.name for operation in found}
    return found


def all_of(dependant: Dependant) -> Iterator[Dependant]:
    for one in dependant.dependencies:
        yield one
        yield from all_of(one)


async def send(client: httpx.AsyncClient, operation: Operation, own: Belongings) -> httpx.Response:
    body = BODIES.get(operation.name)
    return await client.request(
        operation.method,
        operation.address(own),
        params=QUERIES.get(operation.name, {}),
        json=body(own) if callable(body) else body,
    )


async def test_each_operation_has_a_name_of_its_own(app: FastAPI) -> None:
    names = [operation.name for operation in operations(app)]
    assert len(names) > 30
    assert len(names) == len(set(names))
    assert all(name.isidentifier() and name == name.lower() for name in names)


async def test_without_a_credential_there_is_nothing(app: FastAPI, client_of: Client, town: Town) -> None:
    own = await belongings_of(town, town.other)
    client = client_of()
    for operation in operations(app):
        if operation.name not in OPEN:
            answer = await send(client, operation, own)
            assert answer.status_code == 401, operation
            assert answer.headers["Content-Type"] == "application/problem+json"


async def test_what_is_for_admins_is_not_for_members(app: FastAPI, client_of: Client, town: Town) -> None:
    own = await belongings_of(town, town.other)
    client = client_of(town.other_member)
    tried = 0
    for operation in operations(app):
        if operation.for_admins:
            answer = await send(client, operation, own)
            assert answer.status_code == 403, operation
            tried += 1
    assert tried >= 5


async def test_another_tenant_finds_nothing(app: FastAPI, client_of: Client, town: Town) -> None:
    """By an id: as if it were not there. In a list: not among the rest."""
    own = await belongings_of(town, town.other)
    before = await own.everything()
    client = client_of(town.admin)
    for operation in operations(app):
        if operation.name in STREAMS | OPEN:
            continue
        answer = await send(client, operation, own)
        if operation.parameters:
            assert answer.status_code == 404, f"{operation}: {answer.status_code} {answer.text[:200]}"
        assert answer.status_code < 500 or answer.status_code == 503, f"{operation}: {answer.text[:200]}"
        for secret in own.secrets():
            assert secret not in answer.text, operation
    assert await own.everything() == before, "nothing of it was changed"


async def test_n17_what_a_tenant_does_with_a_shared_channel_is_its_own_affair(
    app: FastAPI, client_of: Client, town: Town
) -> None:
    """Every operation of an admin of B on a channel that both watch: A sees the same as before."""
    watcher = client_of(town.member)
    before = await shown_of(watcher, NEWS)
    tried = 0
    for operation in operations(app):
        if "channel_id" not in operation.parameters or operation.name in STREAMS | NOT_HERE:
            continue
        await town.archive.run(
            "INSERT INTO subscriptions (tenant_id, user_id, channel_id) VALUES (:tenant, :user, :channel)"
            " ON CONFLICT DO NOTHING",
            tenant=town.other.tenant_id,
            user=town.other.user_id,
            channel=NEWS,
        )
        own = await belongings_of(town, town.other)
        own.ids["channel_id"] = NEWS
        answer = await send(client_of(town.other), operation, own)
        assert answer.status_code < 500, f"{operation}: {answer.text[:200]}"
        assert await shown_of(watcher, NEWS) == before, operation
        tried += 1
    assert tried >= 8


async def shown_of(client: httpx.AsyncClient, channel: int) -> dict[str, Any]:
    """What a tenant has said of a channel itself, and that it still has it."""
    answer = (await client.get(f"{PREFIX}/channels/{channel}")).json()
    return {name: answer[name] for name in ("id", "status", "priority", "timezone", "captured")}


async def test_its_own_tenant_gets_it(app: FastAPI, client_of: Client, town: Town) -> None:
    failed = []
    for operation in operations(app):
        if operation.name in STREAMS | OF_THE_SYSTEM | NOT_HERE | BY_SIGNATURE:
            continue
        own = await belongings_of(town, town.other)  # anew each time: some are deleted
        answer = await send(client_of(town.other), operation, own)
        if answer.status_code >= 400 and answer.status_code != 503:
            failed.append(f"{operation}: {answer.status_code} {answer.text}")
    assert failed == []


async def test_a_path_that_is_no_id_is_no_crash(app: FastAPI, client_of: Client, town: Town) -> None:
    client = client_of(town.admin)
    for operation in operations(app):
        for value in ("0", "-1", "9" * 30, "x", "%00", "%ED%A0%80", str(UUID(int=0)), "..%2F..%2Fetc"):
            if operation.parameters:
                address = operation.path.format(**dict.fromkeys(operation.parameters, value))
                answer = await client.request(operation.method, address, params=QUERIES.get(operation.name, {}))
                assert 400 <= answer.status_code < 500, f"{operation} {value}: {answer.status_code} {answer.text[:200]}"
                assert answer.headers["Content-Type"] == "application/problem+json", f"{operation} {value}"
