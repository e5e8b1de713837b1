"""The pipeline as a table: what each stage reads and writes (SPEC 4). Tested equal to the contract."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from telegram_assistant.names import (
    ALBUM_ASSEMBLED,
    ALBUM_ASSEMBLER,
    ALBUMS_PARSED,
    CRAWL_TRIGGER,
    ENRICHMENT,
    INDEXING,
    MEDIA_SETTLED,
    POST_PERSISTENCE,
    POSTS_CRAWL,
    POSTS_DELETED,
    POSTS_ENRICHED,
    POSTS_INDEXED,
    POSTS_PARSED,
    POSTS_RETAG,
    POSTS_TAGGED,
    POSTS_VISION_ANALYZED,
    RETAGGING,
    TAG_PERSISTENCE,
    TAGGING,
    TELETHON_INGEST,
    VISION_ANALYSIS,
)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of SPEC 4. `also_*` is what we added to it, for edits, deletions and late results (G5)."""

    number: str
    stage: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    does: str
    also_reads: tuple[str, ...] = ()
    also_writes: tuple[str, ...] = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.reads + self.also_reads

    @property
    def outputs(self) -> tuple[str, ...]:
        return self.writes + self.also_writes


PIPELINE = (
    Row(
        "4.1",
        TELETHON_INGEST,
        (),
        (POSTS_PARSED, ALBUMS_PARSED),
        "captures posts, albums, edits, deletions and files",
        also_writes=(POSTS_DELETED, MEDIA_SETTLED),
    ),
    Row(
        "4.2",
        POST_PERSISTENCE,
        (POSTS_PARSED,),
        (),
        "saves what another producer told of, and lets posts be found by their words",
    ),
    Row(
        "4.3",
        VISION_ANALYSIS,
        (POSTS_PARSED,),
        (POSTS_VISION_ANALYZED,),
        "looks at pictures, once per file",
        also_reads=(MEDIA_SETTLED,),  # a post is saved before its files are there
    ),
    Row(
        "4.4",
        RETAGGING,
        (POSTS_VISION_ANALYZED,),
        (POSTS_TAGGED,),
        "tags again, knowing what vision saw",
        also_reads=(POSTS_RETAG,),  # when somebody asks for it
    ),
    Row("4.5", TAGGING, (POSTS_PARSED,), (POSTS_TAGGED,), "tags, topics and entities"),
    Row("4.6", TAG_PERSISTENCE, (POSTS_TAGGED,), (), "saves tags"),
    Row(
        "4.7",
        CRAWL_TRIGGER,
        (POSTS_TAGGED,),
        (POSTS_CRAWL,),
        "decides which links deserve reading",
        also_writes=(POSTS_ENRICHED,),  # for posts with nothing to read
    ),
    Row("4.8", ENRICHMENT, (POSTS_CRAWL,), (POSTS_ENRICHED,), "reads the links"),
    Row(
        "4.9",
        INDEXING,
        (POSTS_ENRICHED,),
        (POSTS_INDEXED,),
        "puts posts into the vector index and the graph, and takes deleted ones out",
        also_reads=(POSTS_DELETED, POSTS_VISION_ANALYZED, ALBUM_ASSEMBLED),
    ),
    Row(
        "4.10",
        ALBUM_ASSEMBLER,
        (ALBUMS_PARSED, POSTS_VISION_ANALYZED),
        (ALBUM_ASSEMBLED,),
        "says what the pictures of an album show together",
    ),
)
STAGES = tuple(row.stage for row in PIPELINE if row.inputs)
EVENTS = tuple(dict.fromkeys(event for row in PIPELINE for event in (*row.inputs, *row.outputs)))


def groups() -> Iterator[tuple[str, str]]:
    """Every event with every stage that reads it."""
    return ((event, row.stage) for row in PIPELINE for event in row.inputs)
