"""Traces by OpenTelemetry: the `trace_id` of the envelope is the id of the trace, from the parse to the indexes.

Off unless OTEL_EXPORTER_OTLP_ENDPOINT is set. What it needs is the extra `otel`, and is imported only then.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from hashlib import sha256
from importlib import import_module
from random import Random
from types import ModuleType
from typing import Any

from telegram_assistant import __version__
from telegram_assistant.bus.stage import Done, Outcome
from telegram_assistant.domain.events import Event
from telegram_assistant.errors import Fatal, Reject, Retry

SERVICE = "telegram-assistant"
LATEST_SECONDS = 5.0  # how long a stop waits for what was not sent yet


def ids_of(trace_id: str) -> tuple[int, int]:
    """The ids of the trace and of its root, so that every process knows the parent without being told."""
    try:
        number = int(trace_id, 16) if len(trace_id) == 32 else 0
    except ValueError:
        number = 0
    trace = number or int.from_bytes(sha256(trace_id.encode()).digest()[:16], "big")
    return trace, trace >> 64 or 1


class _Ids:
    """Gives a root the ids that belong to it, and every other span a random one."""

    def __init__(self) -> None:
        self.root: tuple[int, int] | None = None
        self._random = Random()  # noqa: S311 - names, no secrets

    def generate_trace_id(self) -> int:
        return self.root[0] if self.root else self._random.getrandbits(128) or 1

    def generate_span_id(self) -> int:
        return self.root[1] if self.root else self._random.getrandbits(64) or 1

    def is_trace_id_random(self) -> bool:
        return True


class Traces:
    """The spans of one process. Until it is started it sends none and costs nothing."""

    def __init__(self) -> None:
        self._api: ModuleType | None = None
        self._provider: Any = None
        self._tracer: Any = None
        self._ids = _Ids()

    def start(self, endpoint: str) -> None:
        """Raises Fatal where the extra is not installed."""
        try:
            api = import_module("opentelemetry.trace")
            sdk = import_module("opentelemetry.sdk.trace")
            export = import_module("opentelemetry.sdk.trace.export")
            resources = import_module("opentelemetry.sdk.resources")
            otlp = import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
        except ModuleNotFoundError as exc:
            raise Fatal(
                "OTEL_EXPORTER_OTLP_ENDPOINT is set, which needs the extra otel: pip install 'telegram-assistant[otel]'"
            ) from exc
        resource = resources.Resource.create({"service.name": SERVICE, "service.version": __version__})
        self._provider = sdk.TracerProvider(resource=resource, id_generator=self._ids, shutdown_on_exit=False)
        exporter = otlp.OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces", timeout=LATEST_SECONDS)
        self._provider.add_span_processor(export.BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer(SERVICE, __version__)
        self._api = api

    async def stop(self) -> None:
        """Send what is left; the library does that in a thread."""
        provider, self._provider, self._tracer, self._api = self._provider, None, None, None
        if provider is not None:
            await asyncio.to_thread(provider.shutdown)

    def parsed(self, trace_id: str, seconds: float, attributes: Mapping[str, Any]) -> None:
        """The root: a page was read, compared and stored."""
        if self._api is None:
            return
        self._ids.root = ids_of(trace_id)
        try:
            self._tell("parse", seconds, attributes, self._api.set_span_in_context(self._api.INVALID_SPAN))
        finally:
            self._ids.root = None

    def step(self, name: str, trace_id: str, seconds: float, attributes: Mapping[str, Any], failed: str = "") -> None:
        """Something that happened on the way, and took so long until now."""
        if self._api is None:
            return
        trace, root = ids_of(trace_id)
        flags = self._api.TraceFlags(self._api.TraceFlags.SAMPLED)
        parent = self._api.SpanContext(trace, root, is_remote=True, trace_flags=flags)
        context = self._api.set_span_in_context(self._api.NonRecordingSpan(parent))
        self._tell(name, seconds, attributes, context, failed)

    def batch(
        self, stage: str, event: str, events: Sequence[Event], outcomes: Sequence[Outcome], seconds: float
    ) -> None:
        """A stage handled events together: one span for each trace among them."""
        if self._api is None:
            return
        by_trace: dict[str, list[tuple[Event, Outcome]]] = {}
        for one, outcome in zip(events, outcomes, strict=True):
            by_trace.setdefault(one.trace_id, []).append((one, outcome))
        for trace_id, pairs in by_trace.items():
            failed = [str(outcome) for _, outcome in pairs if isinstance(outcome, Retry | Reject)]
            done = sum(isinstance(outcome, Done) for _, outcome in pairs)
            attributes = {
                "event": event,
                "events": len(pairs),
                "done": done,
                "failed": len(failed),
                "batch": len(events),
            }
            posts = [str(post_id) for one, _ in pairs if (post_id := getattr(one, "post_id", None)) is not None]
            self.step(stage, trace_id, seconds, attributes | {"posts": posts[:10]}, failed[0] if failed else "")

    def _tell(self, name: str, seconds: float, attributes: Mapping[str, Any], context: Any, failed: str = "") -> None:
        now = time.time_ns()
        span = self._tracer.start_span(
            name, context=context, attributes=dict(attributes), start_time=now - int(seconds * 1e9)
        )
        if failed and self._api is not None:
            span.set_status(self._api.StatusCode.ERROR, failed[:500])
        span.end(end_time=now)


TRACES = Traces()  # one for a process, as its metrics are


def start_tracing(endpoint: str | None, stack: AsyncExitStack) -> None:
    """For the whole process, if an endpoint is set; what is left is sent when the stack is closed."""
    if endpoint:
        TRACES.start(endpoint)
        stack.push_async_callback(TRACES.stop)
