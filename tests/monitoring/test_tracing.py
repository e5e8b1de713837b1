"""Traces: off unless an endpoint is set; then one per `trace_id`, as a collector of OpenTelemetry receives it."""

from __future__ import annotations

import asyncio
import gzip
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
import structlog
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from telegram_assistant.bus.stage import Done, Outcome, each
from telegram_assistant.bus.tracing import TRACES, Traces, ids_of, start_tracing
from telegram_assistant.domain.events import PostDeleted
from telegram_assistant.errors import Fatal, Reject, Retry, Skip
from tests.e2e.conftest import Starter

TRACE = "0af7651916cd43dd8448eb211c80319c"
OK, ERROR = 0, 2  # as OTLP writes them: unset, and failed


@dataclass
class Span:
    """As much of a span as matters here."""

    trace_id: str
    span_id: str
    parent: str
    name: str
    status: int
    attributes: dict[str, Any]
    seconds: float


@dataclass
class Collector:
    """Receives OTLP over HTTP."""

    request: Any
    url: str = ""
    spans: list[Span] = field(default_factory=list)

    async def take(self, request: Request) -> Response:
        body = await request.body()
        told = self.request()
        told.ParseFromString(gzip.decompress(body) if request.headers.get("content-encoding") == "gzip" else body)
        for resource in told.resource_spans:
            names = {one.key: one.value.string_value for one in resource.resource.attributes}
            assert names["service.name"] == "telegram-assistant"
            self.spans += [_span(one) for scope in resource.scope_spans for one in scope.spans]
        return Response(b"", media_type="application/x-protobuf")

    def of(self, trace_id: str) -> dict[str, Span]:
        return {span.name: span for span in self.spans if span.trace_id == trace_id}


def _span(one: Any) -> Span:
    values = {each_.key: getattr(each_.value, str(each_.value.WhichOneof("value"))) for each_ in one.attributes}
    seconds = (one.end_time_unix_nano - one.start_time_unix_nano) / 1e9
    ids = one.trace_id.hex(), one.span_id.hex(), one.parent_span_id.hex()
    return Span(*ids, one.name, one.status.code, values, seconds)


@pytest.fixture
async def collector() -> AsyncIterator[Collector]:
    service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2", reason="no extra otel")
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http.trace_exporter", reason="no extra otel")
    found = Collector(service.ExportTraceServiceRequest)
    app = Starlette(routes=[Route("/v1/traces", found.take, methods=["POST"])])
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off", ws="none"))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        found.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        yield found
        server.should_exit = server.force_exit = True
        await serving


def event(trace_id: str) -> PostDeleted:
    moment = datetime(2026, 1, 7, tzinfo=UTC)
    return PostDeleted(trace_id=trace_id, occurred_at=moment, idempotency_key="k", tenant_id=uuid4(), post_id=uuid4())


@pytest.mark.integration
async def test_a_trace_has_one_root_and_every_step_below_it(collector: Collector) -> None:
    traces = Traces()
    traces.start(collector.url)
    traces.step("publish", TRACE, 0.5, {"events": 3})  # in another process, and maybe sent earlier
    traces.parsed(TRACE, 2.0, {"channel_id": 7})
    await traces.stop()
    found = collector.of(TRACE)
    assert set(found) == {"parse", "publish"}
    assert found["parse"].parent == ""
    assert found["publish"].parent == found["parse"].span_id
    assert found["publish"].seconds == pytest.approx(0.5, abs=0.001)
    assert found["parse"].attributes == {"channel_id": 7}


@pytest.mark.integration
async def test_a_batch_tells_each_trace_what_became_of_its_events(collector: Collector) -> None:
    one, two, three = uuid4().hex, uuid4().hex, uuid4().hex
    traces = Traces()
    traces.start(collector.url)
    events = [event(one), event(two), event(one), event(three)]
    outcomes: list[Outcome] = [Done(), Retry("the model is away"), Skip("nothing to do"), Reject("unreadable")]
    traces.batch("tagging", "posts.parsed", events, outcomes, 1.0)
    await traces.stop()
    told = {name: collector.of(name)["tagging"] for name in (one, two, three)}
    assert [told[name].status for name in (one, two, three)] == [OK, ERROR, ERROR]
    assert [told[name].attributes["events"] for name in (one, two, three)] == [2, 1, 1]
    assert told[one].attributes["done"] == 1
    assert told[two].attributes["failed"] == 1


@pytest.mark.integration
async def test_a_collector_that_is_away_stops_nobody(collector: Collector) -> None:
    traces = Traces()
    traces.start("http://127.0.0.1:9")
    traces.parsed(TRACE, 0.1, {})
    async with asyncio.timeout(300):
        await traces.stop()
    assert collector.spans == []


@pytest.mark.unit
def test_ids_are_those_of_the_envelope() -> None:
    assert ids_of(TRACE) == (int(TRACE, 16), int(TRACE[:16], 16))
    other = ids_of("not hexadecimal")
    assert other == ids_of("not hexadecimal") != ids_of("something else")
    assert all(0 < number < 2**128 for number in other)
    assert min(ids_of("0" * 32)) > 0, "zeros are no ids"


@pytest.mark.unit
async def test_without_an_endpoint_nothing_is_started() -> None:
    async with AsyncExitStack() as stack:
        start_tracing(None, stack)
        TRACES.parsed(TRACE, 0.1, {})
        TRACES.step("publish", TRACE, 0.1, {})
        TRACES.batch("tagging", "posts.parsed", [event(TRACE)], [Done()], 0.1)


@pytest.mark.unit
def test_without_an_endpoint_nothing_is_imported() -> None:
    script = "import sys, telegram_assistant.wiring.roles; sys.exit('opentelemetry.exporter' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.unit
def test_without_the_extra_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    with pytest.raises(Fatal, match=r"extra otel: pip install 'telegram-assistant\[otel\]'"):
        Traces().start("http://127.0.0.1:4318")


@pytest.mark.unit
async def test_what_a_stage_logs_about_an_event_has_its_trace_id() -> None:
    logged: list[dict[str, Any]] = []

    async def work(_: PostDeleted) -> Done:
        logged.append(structlog.contextvars.get_contextvars())
        return Done()

    traces = [uuid4().hex for _ in range(3)]
    await each([event(trace_id) for trace_id in traces], work, at_once=2)
    assert [one["trace_id"] for one in logged] == traces


@pytest.mark.e2e
async def test_a_post_is_traced_from_the_parse_to_the_index(start: Starter, collector: Collector) -> None:
    tga = await (await start(OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, LOG_LEVEL="DEBUG")).ready()
    wanted = {"parse", "publish", "tagging", "crawl_trigger", "indexing"}
    whole: list[str] = []
    for _ in range(1500):
        whole = [trace for trace in {span.trace_id for span in collector.spans} if wanted <= set(collector.of(trace))]
        if whole:
            break
        await asyncio.sleep(0.2)
    assert whole, sorted({span.name for span in collector.spans})
    spans = collector.of(whole[0])
    assert {span.parent for name, span in spans.items() if name != "parse"} == {spans["parse"].span_id}
    assert (await tga.stop()).code == 0
    assert whole[0] in tga.err(), "the log names it too"
