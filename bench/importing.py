"""What importing an export costs: of JSON beside saving the same posts, of HTML beside that and parsing by lxml alone.

40,000 messages, the size of a channel of ten years, and memory while they are read.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from html import escape
from pathlib import Path
from uuid import UUID

import psutil
from lxml import etree
from sqlalchemy import text

from bench.engines import Engines, started_engines
from bench.figure import Figure
from bench.saving import read_posts
from bench.telegram import served_world
from telegram_assistant.domain.access import SYSTEM_TENANT, SYSTEM_USER
from telegram_assistant.domain.ledger import Coverage
from telegram_assistant.domain.media_rules import MediaRules
from telegram_assistant.domain.post import Post
from telegram_assistant.domain.text import EntityKind
from telegram_assistant.ingest.importing import BATCH, Importer, Wish, decide_exported
from telegram_assistant.ingest.saver import Reading, Saver
from telegram_assistant.source.export import Export
from telegram_assistant.stores.media import MediaStore
from telegram_assistant.stores.postgres.channels import Channels
from telegram_assistant.stores.postgres.imports import ImportedChannels
from telegram_assistant.stores.postgres.media import MediaQueue
from telegram_assistant.wiring.roles import collect_garbage_less

MESSAGES = 40_000
CHANNEL = 1_878_264_527
PAGE = 1000  # messages of an HTML page
REPETITIONS = 2
START = datetime(2015, 1, 1, tzinfo=UTC)
MEGABYTE = 2**20
_NAMES = {EntityKind.URL: "link", EntityKind.TEXT_URL: "text_link", EntityKind.STRIKE: "strikethrough"}
_TAGS = {EntityKind.BOLD: "strong", EntityKind.ITALIC: "em", EntityKind.CODE: "code", EntityKind.STRIKE: "s"}


async def _texts() -> list[list[dict[str, str]]]:
    """Posts of the simulated Telegram, cut as Telegram Desktop cuts them."""
    async with served_world(channels=4, posts=500) as served:
        channels = await read_posts(served)
    return [_parts(post) for posts in channels for post in posts if post.text]


def _parts(post: Post) -> list[dict[str, str]]:
    units, at, parts = post.text.encode("utf-16-le"), 0, []
    for entity in sorted(post.entities, key=lambda one: one.offset):
        if entity.offset < at:
            continue  # nested: left out
        if entity.offset > at:
            parts.append({"type": "plain", "text": units[2 * at : 2 * entity.offset].decode("utf-16-le")})
        at = entity.offset + entity.length
        said = units[2 * entity.offset : 2 * at].decode("utf-16-le")
        href = {"href": entity.url} if entity.url else {}
        parts.append({"type": _NAMES.get(entity.kind, entity.kind.value), "text": said, **href})
    rest = units[2 * at :].decode("utf-16-le")
    return [*parts, {"type": "plain", "text": rest}] if rest else parts


def _write(folder: Path, texts: Sequence[list[dict[str, str]]]) -> None:
    (folder / "json").mkdir()
    (folder / "html").mkdir()
    numbered = [(number, texts[number % len(texts)]) for number in range(1, MESSAGES + 1)]
    content = {
        "name": "Bench",
        "type": "public_channel",
        "id": CHANNEL,
        "messages": [_message(*one) for one in numbered],
    }
    (folder / "json" / "result.json").write_text(json.dumps(content, ensure_ascii=False, indent=1), "utf-8")
    for page, start in enumerate(range(0, MESSAGES, PAGE), 1):
        name = "messages.html" if page == 1 else f"messages{page}.html"
        shown = "".join(_shown(*one) for one in numbered[start : start + PAGE])
        (folder / "html" / name).write_text(_HEAD + shown + "</div></div></div></body></html>", "utf-8")


def _message(number: int, parts: list[dict[str, str]]) -> dict[str, object]:
    when = START + timedelta(minutes=number)
    plain = [part["text"] if part["type"] == "plain" else part for part in parts]
    return {
        "id": number,
        "type": "message",
        "date": when.replace(tzinfo=None).isoformat(),
        "date_unixtime": str(int(when.timestamp())),
        "from": "Bench",
        "from_id": f"channel{CHANNEL}",
        "text": plain[0] if len(plain) == 1 and isinstance(plain[0], str) else plain,
        "text_entities": parts,
        "reactions": [{"type": "emoji", "count": 3, "emoji": "❤"}],
    }


_HEAD = """<!DOCTYPE html>
<html>
 <head><meta charset="utf-8"/><title>Exported Data</title></head>
 <body onload="CheckLocation();">
  <div class="page_wrap">
   <div class="page_header">
    <div class="content">
     <div class="text bold">
Bench
     </div>
    </div>
   </div>
   <div class="page_body chat_page">
    <div class="history">
"""


def _shown(number: int, parts: list[dict[str, str]]) -> str:
    when = START + timedelta(minutes=number)
    words = "".join(_marked(part) for part in parts)
    return f"""
     <div class="message default clearfix" id="message{number}">
      <div class="pull_left userpic_wrap">
       <div class="userpic userpic6" style="width: 42px; height: 42px">
        <div class="initials" style="line-height: 42px">
B
        </div>
       </div>
      </div>
      <div class="body">
       <div class="pull_right date details" title="{when:%d.%m.%Y %H:%M:%S} UTC+00:00">
{when:%H:%M}
       </div>
       <div class="from_name">
Bench
       </div>
       <div class="text">
{words}
       </div>
       <span class="reactions">
        <span class="reaction">
         <span class="emoji">
❤
         </span>
         <span class="count">
3
         </span>
        </span>
       </span>
      </div>
     </div>
"""


def _marked(part: dict[str, str]) -> str:
    said = escape(part["text"]).replace("\n", "<br>")
    match part["type"]:
        case "plain":
            return said
        case "link":
            return f'<a href="{escape(part["text"])}">{said}</a>'
        case "text_link":
            return f'<a href="{escape(part["href"])}">{said}</a>'
        case "hashtag":
            return f'<a href="" onclick="return ShowHashtag(&quot;{said[1:]}&quot;)">{said}</a>'
        case kind:
            tag = next((tag for known, tag in _TAGS.items() if _NAMES.get(known, known.value) == kind), "u")
            return f"<{tag}>{said}</{tag}>"


class Bench:
    """An importer over empty engines."""

    def __init__(self, engines: Engines) -> None:
        self.engines = engines
        self.rules = MediaRules()
        self.most = 0.0
        self.early = 0.0

    def saver(self) -> Saver:
        decide_media = partial(decide_exported, rules=self.rules, now=START)
        return Saver(self.engines.database, clock=_now, decide_media=decide_media)

    async def start_over(self) -> None:
        await self.engines.forget_posts()
        async with self.engines.database.begin() as connection:
            await connection.execute(text("DELETE FROM channels"))

    async def cost(self, work: Callable[[], Awaitable[None]]) -> float:
        """CPU seconds of this process and of PostgreSQL."""
        await self.start_over()
        before = time.process_time() + self.engines.postgres_cpu()
        await work()
        return time.process_time() + self.engines.postgres_cpu() - before

    async def bring(self, folder: Path) -> None:
        process, looks = psutil.Process(), 0
        importer = Importer(
            Channels(self.engines.database),
            ImportedChannels(self.engines.database),
            self.saver(),
            MediaQueue(self.engines.database),
            MediaStore.open(self.engines.folder / "media"),
            rules=self.rules,
            clock=_now,
        )

        def told(*_: object) -> None:
            nonlocal looks
            looks += 1
            used = process.memory_info().rss / MEGABYTE
            if looks == MESSAGES // BATCH // 4:
                self.early = max(self.early, used)
            self.most = max(self.most, used)

        wish = Wish(tenant_id=UUID(SYSTEM_TENANT), user_id=UUID(SYSTEM_USER), channel_id=CHANNEL)
        with Export.open([folder], latest=_now()) as export:
            [report] = (await importer.run(export, wish, told)).reports
        if report.new != MESSAGES:
            raise RuntimeError(f"{report.new} of {MESSAGES} messages were imported")

    async def save(self, batches: Sequence[list[Post]]) -> None:
        """The same posts, which are in memory already."""
        owner = {"tenant_id": UUID(SYSTEM_TENANT), "user_id": UUID(SYSTEM_USER)}
        channels = ImportedChannels(self.engines.database)
        await channels.watch(CHANNEL, "Bench", ids=(1, MESSAGES), private=False, group=False, **owner)
        saver = self.saver()
        for posts in batches:
            proven = Coverage.of_ids(post.message_id for post in posts)
            await saver.save(Reading(channel_id=CHANNEL, posts=posts, proven=proven, reached_end=False))


def _now() -> datetime:
    return START + timedelta(days=4000)


def _posts(folder: Path) -> Iterator[list[Post]]:
    with Export.open([folder], latest=_now()) as export:
        [found] = export.survey(None)
        for batch in found.reader.batches(found.chat, CHANNEL, None, BATCH):
            yield batch.posts


def _lxml_alone(folder: Path) -> float:
    before = time.process_time()
    for path in folder.glob("*.html"):
        etree.fromstring(path.read_bytes(), etree.HTMLParser(encoding="utf-8"))
    return time.process_time() - before


async def _measure() -> list[Figure]:
    texts = await _texts()
    async with started_engines() as engines:
        folder = engines.folder / "exports"
        folder.mkdir()
        _write(folder, texts)
        bench = Bench(engines)
        collect_garbage_less()
        as_json, as_html, parsing = [], [], []
        for _ in range(REPETITIONS):  # in turn, so that a busy moment of the machine hits all
            as_json.append(await bench.cost(lambda: bench.bring(folder / "json")))
            as_html.append(await bench.cost(lambda: bench.bring(folder / "html")))
            parsing.append(_lxml_alone(folder / "html"))
        early, most = bench.early, bench.most
        batches = list(_posts(folder / "json"))
        saving = [await bench.cost(lambda: bench.save(batches)) for _ in range(REPETITIONS)]
    return [
        Figure("import_json", min(as_json), "CPU s, of saving alone", min(saving)),
        Figure("import_html", min(as_html), "CPU s, of lxml and saving", min(parsing) + min(saving)),
        Figure("import_memory", most, "MB, of that after a quarter", early),
    ]


def run() -> list[Figure]:
    """At most 1.3 for JSON, 2 for HTML, and memory that does not grow."""
    return asyncio.run(_measure())
