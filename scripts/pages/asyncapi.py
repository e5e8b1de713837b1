"""The AsyncAPI document of the bus, made from the table of the pipeline and the types of its events."""

from __future__ import annotations

from typing import Any

import msgspec

from telegram_assistant import __version__
from telegram_assistant.domain import events as known
from telegram_assistant.names import stream
from telegram_assistant.stages import EVENTS, PIPELINE

REFERENCE = "#/components/schemas/{name}"


def document() -> dict[str, Any]:
    """AsyncAPI 3.0: a channel per stream, an operation for each stage that sends or receives on it."""
    kinds = [known.EVENTS[event] for event in EVENTS]
    _, schemas = msgspec.json.schema_components(kinds, ref_template=REFERENCE)
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Telegram Assistant: the pipeline",
            "version": __version__,
            "description": (
                "Events on Redis Streams. An entry has one field, `events`: a JSON array of up to a hundred events of"
                " the stream's type. Each stage is a consumer group of its own name."
            ),
        },
        "defaultContentType": "application/json",
        "channels": {event: _channel(event) for event in EVENTS},
        "operations": dict(_operations()),
        "components": {
            "messages": {event: _message(event) for event in EVENTS},
            "schemas": dict(sorted(schemas.items())),
        },
    }


def _channel(event: str) -> dict[str, Any]:
    return {
        "address": stream(event),
        "messages": {event: {"$ref": f"#/components/messages/{event}"}},
        "bindings": {"redis": {}},
    }


def _message(event: str) -> dict[str, Any]:
    kind = known.EVENTS[event]
    return {
        "name": event,
        "summary": (kind.__doc__ or "").partition("\n")[0],
        "payload": {"type": "array", "items": {"$ref": REFERENCE.format(name=kind.__name__)}},
    }


def _operations() -> list[tuple[str, dict[str, Any]]]:
    found = []
    for row in PIPELINE:
        for action, events in (("receive", row.inputs), ("send", row.outputs)):
            for event in events:
                operation = {
                    "action": action,
                    "channel": {"$ref": f"#/channels/{event}"},
                    "title": row.stage,
                    "summary": f"{row.does} (SPEC {row.number})",
                }
                found.append((f"{row.stage}.{action}.{event}", operation))
    return found
