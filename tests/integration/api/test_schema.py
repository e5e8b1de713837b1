"""Requests made up from the OpenAPI document by schemathesis, right and wrong ones: none makes us fail."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok

from telegram_assistant.bus.supervisor import Supervisor
from telegram_assistant.http.serving import listen, serve
from tests.integration.api.samples import belongings_of

pytestmark = pytest.mark.integration

Town = Any  # of conftest.py, which cannot be imported

EXAMPLES = int(os.environ.get("TGA_SCHEMA_EXAMPLES", "8"))  # for each operation, of each kind
SKIPPED = {"follow_events", "list_followed"}  # goes on for ever; waits for capture, which does not run here
SECONDS = 300.0


@pytest.fixture
async def address(app: FastAPI) -> AsyncIterator[str]:
    supervisor = Supervisor()
    with listen("127.0.0.1", 0, variable="API_PORT") as listener:
        await supervisor.start("api", lambda task: serve(app, listener, task))
        yield "http://{}:{}".format(*listener.getsockname()[:2])
        await supervisor.stop()


async def test_no_request_makes_it_fail(
    app: FastAPI, address: str, town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    await belongings_of(town, town.admin)
    monkeypatch.setattr("telegram_assistant.http.dependencies.PER_MINUTE", 1_000_000)
    tried = await asyncio.to_thread(attack, app.openapi(), address, town.admin.key)
    assert tried > 400


def attack(document: dict[str, Any], address: str, key: str) -> int:
    schema = schemathesis.openapi.from_dict(document)
    schema.config.update(base_url=address)
    tried = 0
    for found in schema.get_all_operations():
        assert isinstance(found, Ok), found
        operation = found.ok()
        if operation.definition.raw["operationId"] in SKIPPED:
            continue
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):

            @seed(7)
            @settings(
                max_examples=EXAMPLES,
                database=None,
                deadline=None,
                phases=[Phase.explicit, Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=operation.as_strategy(generation_mode=mode))
            def each(case: Any) -> None:
                nonlocal tried
                tried += 1
                response = case.call(headers={"Authorization": f"Bearer {key}"}, timeout=SECONDS)
                if response.status_code != 503:  # a part that does not run here says so
                    case.validate_response(response, checks=[not_a_server_error])

            with contextlib.suppress(Unsatisfiable):  # where nothing is asked for, nothing can be wrong
                each()
    return tried
