"""The picture of the data flow, drawn from the table of the pipeline, which alone says what stages read and write.

Only where things stand is said here; what has no place yet stands at the right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from textwrap import wrap

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
from telegram_assistant.stages import PIPELINE

WIDTH, HEIGHT = 960, 1130
FREE = (840, 640, 76)  # x, the first y, and how far apart: for what was not given a place
LETTER = 7.9  # width of a letter of a name

# Where the middle of each thing is: x, y.
STAGES = {
    TELETHON_INGEST: (330, 148),
    POST_PERSISTENCE: (114, 336),
    VISION_ANALYSIS: (490, 336),
    TAGGING: (212, 500),
    RETAGGING: (440, 500),
    ALBUM_ASSEMBLER: (725, 500),
    TAG_PERSISTENCE: (114, 668),
    CRAWL_TRIGGER: (360, 668),
    ENRICHMENT: (250, 832),
    INDEXING: (500, 976),
}
EVENTS = {
    POSTS_PARSED: (236, 244),
    MEDIA_SETTLED: (440, 244),
    ALBUMS_PARSED: (640, 244),
    POSTS_DELETED: (850, 244),
    POSTS_VISION_ANALYZED: (490, 418),
    POSTS_RETAG: (325, 418),
    POSTS_TAGGED: (300, 584),
    ALBUM_ASSEMBLED: (725, 584),
    POSTS_CRAWL: (250, 750),
    POSTS_ENRICHED: (360, 904),
    POSTS_INDEXED: (500, 1060),
}
# Long ways go down a lane of their own: the x of that lane.
LANES = {
    (POSTS_PARSED, TAGGING): 236,
    (POSTS_VISION_ANALYZED, INDEXING): 575,
    (ALBUM_ASSEMBLED, INDEXING): 609,
    (POSTS_DELETED, INDEXING): 880,
    (ALBUMS_PARSED, ALBUM_ASSEMBLER): 725,
    (CRAWL_TRIGGER, POSTS_ENRICHED): 415,
}
# What is no part of the table: name, text, x, y, width.
AROUND = {
    "telegram": ("Telegram", "channels, over MTProto", 330, 44, 190),
    "stores": ("PostgreSQL, files", "posts, versions, ledger, outbox", 760, 148, 230),
    "indexes": ("vectors, graph", "and full text in PostgreSQL", 824, 976, 220),
    "readers": ("what people use", "pages, search, ask, digests, alerts, API, MCP, bot", 720, 1074, 250),
}
LINKS = (("telegram", TELETHON_INGEST), (TELETHON_INGEST, "stores"), (INDEXING, "indexes"), ("indexes", "readers"))
STYLE = """
  .paper { fill: #ffffff; stroke: #d0d7de }
  .stage { fill: #e8f1fd; stroke: #2f6fc4 }
  .event { fill: #f3f4f6; stroke: #8b949e }
  .place { fill: #fdf3e1; stroke: #b7791f }
  .way { fill: none; stroke: #6b7683; stroke-width: 1.4 }
  .tip { fill: #6b7683 }
  text { fill: #1f2328; text-anchor: middle; font-family: system-ui, sans-serif; font-size: 12px }
  .name { font-family: ui-monospace, monospace; font-size: 13px; font-weight: 600 }
  .said { fill: #57606a }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #161b22; stroke: #30363d }
    .stage { fill: #15294a; stroke: #5b9bf0 }
    .event { fill: #262c36; stroke: #8b949e }
    .place { fill: #3a2c12; stroke: #d9a441 }
    .way { stroke: #9aa4af }
    .tip { fill: #9aa4af }
    text { fill: #e6edf3 }
    .said { fill: #adb6c0 }
  }
"""


@dataclass(frozen=True, slots=True)
class Box:
    """One thing of the picture: its middle, its size, and what stands in it."""

    kind: str
    name: str
    lines: tuple[str, ...]
    x: float
    y: float
    width: float

    @property
    def height(self) -> float:
        return 26 + 15 * len(self.lines) + (8 if self.lines else 0)

    @property
    def top(self) -> float:
        return self.y - self.height / 2

    @property
    def bottom(self) -> float:
        return self.y + self.height / 2

    def drawn(self) -> Iterator[str]:
        round_ = self.height / 2 if self.kind == "event" else 8
        yield (
            f'<rect class="{self.kind}" x="{self.x - self.width / 2:g}" y="{self.top:g}" width="{self.width:g}"'
            f' height="{self.height:g}" rx="{round_:g}"/>'
        )
        first = self.top + (20 if self.lines else 17)
        yield f'<text class="name" x="{self.x:g}" y="{first:g}">{escape(self.name)}</text>'
        for number, line in enumerate(self.lines):
            yield f'<text class="said" x="{self.x:g}" y="{first + 17 + 15 * number:g}">{escape(line)}</text>'


def picture() -> str:
    """The whole picture as SVG; it has a ground of its own, light or dark as the reader's system is."""
    boxes = {**stages(), **events(), **around()}
    ways = [way(boxes[begin], boxes[end], LANES.get((begin, end))) for begin, end in links()]
    parts = [part for box in boxes.values() for part in box.drawn()]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
            "<title>From Telegram to search: stages, and the events between them</title>",
            f"<style>{STYLE}</style>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7"',
            ' markerHeight="7" orient="auto">',
            '<path class="tip" d="M0 0 8 4 0 8z"/></marker></defs>',
            f'<rect class="paper" x="1" y="1" width="{WIDTH - 2}" height="{HEIGHT - 2}" rx="12"/>',
            *ways,
            *parts,
            "</svg>\n",
        ]
    )


def stages() -> dict[str, Box]:
    made = {}
    for row in PIPELINE:
        width = 340 if row.stage in {TELETHON_INGEST, INDEXING} else 205
        lines = tuple(wrap(row.does, int(width / 6.4)))
        made[row.stage] = Box("stage", row.stage, lines, *_place(STAGES, row.stage), width)
    return made


def events() -> dict[str, Box]:
    names = dict.fromkeys(event for row in PIPELINE for event in (*row.inputs, *row.outputs))
    return {name: Box("event", name, (), *_place(EVENTS, name), len(name) * LETTER + 28) for name in names}


def _place(places: dict[str, tuple[int, int]], name: str) -> tuple[int, int]:
    """A new one stands at the right until it is given a better place above."""
    if name not in places:
        taken = sum(x == FREE[0] for x, _ in places.values())
        places[name] = (FREE[0], FREE[1] + taken * FREE[2])
    return places[name]


def around() -> dict[str, Box]:
    return {
        key: Box("place", name, tuple(wrap(text, int(width / 6.4))), x, y, width)
        for key, (name, text, x, y, width) in AROUND.items()
    }


def links() -> Iterator[tuple[str, str]]:
    for row in PIPELINE:
        yield from ((event, row.stage) for event in row.inputs)
        yield from ((row.stage, event) for event in row.outputs)
    yield from LINKS


def way(begin: Box, end: Box, lane: float | None) -> str:
    """A line from one thing down to the other, or sideways where they stand beside each other."""
    if abs(begin.y - end.y) < 20:
        left, right = begin.x + begin.width / 2, end.x - end.width / 2
        return f'<path class="way" marker-end="url(#tip)" d="M{left:g} {begin.y:g}H{right - 2:g}"/>'
    start, stop = begin.bottom, end.top - 2
    room = 0.42 * end.width
    target = max(end.x - room, min(end.x + room, lane if lane is not None else begin.x * 0.3 + end.x * 0.7))
    if lane is None:
        bend = (start + stop) / 2
        path = f"M{begin.x:g} {start:g}C{begin.x:g} {bend:g} {target:g} {bend:g} {target:g} {stop:g}"
    else:
        path = (
            f"M{begin.x:g} {start:g}C{begin.x:g} {start + 22:g} {lane:g} {start + 12:g} {lane:g} {start + 34:g}"
            f"V{stop - 40:g}C{lane:g} {stop - 12:g} {target:g} {stop - 26:g} {target:g} {stop:g}"
        )
    return f'<path class="way" marker-end="url(#tip)" d="{path}"/>'
