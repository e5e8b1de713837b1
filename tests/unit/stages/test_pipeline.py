"""The pipeline is the table of SPEC 4, name by name."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest

from telegram_assistant.domain.events import EVENTS as KINDS
from telegram_assistant.names import POSTS_RETAG, stream
from telegram_assistant.stages import EVENTS, PIPELINE, STAGES, groups

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[3]

# As the contract has it; `vision_analysis` reads "posts and albums with media", whose events are posts.parsed.
CONTRACT = {
    "4.1": ("telethon-ingest", (), ("posts.parsed", "albums.parsed")),
    "4.2": ("post_persistence", ("posts.parsed",), ()),
    "4.3": ("vision_analysis", ("posts.parsed",), ("posts.vision.analyzed",)),
    "4.4": ("retagging", ("posts.vision.analyzed",), ("posts.tagged",)),
    "4.5": ("tagging", ("posts.parsed",), ("posts.tagged",)),
    "4.6": ("tag_persistence", ("posts.tagged",), ()),
    "4.7": ("crawl_trigger", ("posts.tagged",), ("posts.crawl",)),
    "4.8": ("enrichment", ("posts.crawl",), ("posts.enriched",)),
    "4.9": ("indexing", ("posts.enriched",), ("posts.indexed",)),
    "4.10": ("album_assembler", ("albums.parsed", "posts.vision.analyzed"), ("album.assembled",)),
}
# What edits, deletions and late results need beyond it (G5).
ADDED = {
    ("telethon-ingest", "writes", "posts.deleted"),
    ("telethon-ingest", "writes", "media.settled"),
    ("vision_analysis", "reads", "media.settled"),
    ("retagging", "reads", "posts.retag"),
    ("crawl_trigger", "writes", "posts.enriched"),
    ("indexing", "reads", "posts.deleted"),
    ("indexing", "reads", "posts.vision.analyzed"),
    ("indexing", "reads", "album.assembled"),
}


def test_the_table_is_spec_4() -> None:
    assert {row.number: (row.stage, row.reads, row.writes) for row in PIPELINE} == CONTRACT


def test_what_was_added_to_spec_4_is_listed_here() -> None:
    added = {(row.stage, "reads", event) for row in PIPELINE for event in row.also_reads}
    added |= {(row.stage, "writes", event) for row in PIPELINE for event in row.also_writes}
    assert added == ADDED


def test_streams_are_named_after_their_events() -> None:
    assert stream("posts.parsed") == "stream:posts:parsed"
    assert stream("posts.vision.analyzed") == "stream:posts:vision:analyzed"
    assert stream("album.assembled") == "stream:album:assembled"


def test_every_event_has_a_type_and_a_writer() -> None:
    assert set(EVENTS) == set(KINDS)
    written = {event for row in PIPELINE for event in row.outputs}
    assert set(EVENTS) - written == {POSTS_RETAG}, "people ask for it (tga retag)"


def test_every_stage_is_a_group() -> None:
    assert {stage for _, stage in groups()} == set(STAGES)
    assert "telethon-ingest" not in STAGES


def test_a_loop_is_impossible() -> None:
    """What a stage publishes never leads back to it: retagging cannot wake vision again."""
    readers = defaultdict(set)
    for row in PIPELINE:
        for event in row.inputs:
            readers[event].add(row.stage)
    follows = {row.stage: {reader for event in row.outputs for reader in readers[event]} for row in PIPELINE}
    for stage in follows:
        reached, border = set[str](), {stage}
        while border:
            border = {after for one in border for after in follows[one]} - reached
            reached |= border
        assert stage not in reached


def test_the_asyncapi_document_knows_every_stage_and_stream() -> None:
    found = json.loads((ROOT / "docs" / "reference" / "asyncapi.json").read_text(encoding="utf-8"))
    assert {one["address"] for one in found["channels"].values()} == {stream(event) for event in EVENTS}
    received = {name.split(".")[0] for name, one in found["operations"].items() if one["action"] == "receive"}
    assert received == set(STAGES)
    envelope = {"schema_version", "trace_id", "occurred_at", "idempotency_key"}
    for kind in KINDS.values():
        assert envelope <= set(found["components"]["schemas"][kind.__name__]["properties"])
