"""Whatever comes from a stream is an event, or is refused in our own words: nothing else may stop a reader."""

from __future__ import annotations

import json
from datetime import UTC
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from telegram_assistant.bus.streams import decode, encode
from telegram_assistant.domain.events import EVENTS, SCHEMA_VERSION, Event, PostDeleted
from telegram_assistant.errors import Reject, Retry

pytestmark = pytest.mark.unit

KINDS = pytest.mark.parametrize("kind", EVENTS.values(), ids=lambda kind: kind.__name__)
QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
WHOLE = st.integers(-(2**63), 2**63 - 1)
MOMENTS = st.datetimes(timezones=st.just(UTC))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def events_of(kind: type[Event]) -> st.SearchStrategy[Event]:
    """Any values that the types allow."""
    known: dict[str, st.SearchStrategy[Any]] = {
        "str": st.text(max_size=20),  # without lone surrogates: no text of ours has any
        "int": WHOLE,
        "int | None": st.none() | WHOLE,
        "datetime": MOMENTS,
        "datetime | None": st.none() | MOMENTS,
        "float": st.floats(allow_nan=False, allow_infinity=False),
        "dict[str, int]": st.dictionaries(st.text(max_size=5), WHOLE, max_size=3),
    }
    fields: dict[str, st.SearchStrategy[Any]] = {
        name: known[said]
        for owner in kind.__mro__
        for name, said in getattr(owner, "__annotations__", {}).items()
        if said in known
    }
    fields["schema_version"] = st.just(SCHEMA_VERSION)
    for name in {"trace_id", "idempotency_key", "content_hash"} & fields.keys():
        fields[name] = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)  # for the tables
    return st.builds(kind, **fields)


def read(kind: type[Event], payload: bytes | str) -> list[Event] | None:
    """None: refused as it should be."""
    try:
        return decode(kind, payload)
    except (Reject, Retry):
        return None


@KINDS
def test_every_event_comes_back_as_it_was(kind: type[Event]) -> None:
    @QUICK
    @given(st.lists(events_of(kind), max_size=3))
    def check(batch: list[Event]) -> None:
        written = encode(batch)
        assert decode(kind, written) == batch
        assert decode(kind, written.decode()) == batch, "the client of Redis gives text"

    check()


@KINDS
def test_a_field_may_hold_anything(kind: type[Event]) -> None:
    @QUICK
    @given(events_of(kind), st.data())
    def check(event: Event, data: st.DataObject) -> None:
        said = json.loads(encode([event]))
        field = data.draw(st.sampled_from(sorted(said[0])))
        said[0][field] = data.draw(JSON)
        found = read(kind, json.dumps(said))
        assert found is None or isinstance(found[0], kind)

    check()


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(list(EVENTS.values())), st.binary(max_size=200) | st.text(max_size=200) | JSON.map(json.dumps))
def test_anything_else_is_refused(kind: type[Event], payload: bytes | str) -> None:
    found = read(kind, payload)
    assert found is None or found == []


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters(codec=None, categories=["Cs"]), min_size=1, max_size=5), st.integers(0, 40))
def test_text_that_is_no_unicode_is_refused(odd: str, at: int) -> None:
    payload = '[{"trace_id": "a", "occurred_at": "x"}]'
    assert read(PostDeleted, payload[:at] + odd + payload[at:]) is None
    assert read(PostDeleted, json.dumps([{"trace_id": odd}])) is None


@pytest.mark.parametrize("payload", [b"[" * 100_000, b'{"a":' * 100_000, b"[" + b"9" * 100_000 + b"]"])
def test_what_is_nested_or_long_without_end_is_refused(payload: bytes) -> None:
    for kind in EVENTS.values():
        assert read(kind, payload) is None


@given(st.integers(SCHEMA_VERSION + 1, 2**63 - 1))
def test_what_a_newer_program_wrote_waits(version: int) -> None:
    number = "00000000-0000-0000-0000-000000000000"
    said = {
        "trace_id": "a",
        "occurred_at": "2026-11-15T00:00:00Z",
        "idempotency_key": "k",
        "schema_version": version,
        "tenant_id": number,
        "post_id": number,
    }
    payload = json.dumps([said])
    with pytest.raises(Retry, match="newer than this program"):
        decode(PostDeleted, payload)
