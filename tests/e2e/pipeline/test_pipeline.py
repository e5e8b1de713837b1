"""From a post in Telegram to both indexes, through the processes that people run."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from telegram_assistant.ai.vision.ocr import find_trained_data
from telegram_assistant.domain.models import Entity as Named
from telegram_assistant.domain.models import EntityKind
from telegram_assistant.names import (
    ALBUM_ASSEMBLER,
    CRAWL_TRIGGER,
    ENRICHMENT,
    INDEXING,
    RETAGGING,
    TAG_PERSISTENCE,
    TAGGING,
    TELETHON_INGEST,
    VISION_ANALYSIS,
)
from telegram_assistant.stages.indexing import text_hash
from telegram_simulator.model import Channel, Entity
from tests.e2e.pipeline.conftest import House, Site, Town, card, until
from tests.pipeline_state import difference, due, held

pytestmark = pytest.mark.e2e

TRAM = (
    "Мэрия Казани объявила, что новая трамвайная линия до аэропорта откроется в сентябре:"
    " строительство завершают две бригады."
)
LATER = (
    "Мэрия Казани перенесла открытие трамвайной линии на ноябрь:"
    " поставщик рельсов из Челябинска задержал последнюю партию."
)
BRIDGE = "Ремонт моста через Волгу начнётся в понедельник, автобусы пойдут в объезд по новым маршрутам. Подробности: "
ARTICLE = """<!doctype html><html lang="ru"><head><title>Мост закроют на месяц</title></head><body><article>
<h1>Мост закроют на месяц</h1>
<p>Подрядчик обещает заменить деформационные швы и уложить новый асфальт на обеих полосах моста до конца месяца.</p>
<p>Пока идут работы, движение автобусов организуют по соседней переправе, расписание речного трамвая расширят.</p>
<p>Инженеры проверят опоры, прежнее освещение моста заменят светодиодными лампами, сообщили в дирекции дорог.</p>
</article></body></html>"""
READS = find_trained_data(None) is not None  # letters on pictures


def linked(words: str, url: str) -> dict[str, Any]:
    """A post that ends with a link, as Telegram marks it."""
    return {"words": words + url, "entities": (Entity("url", len(words), len(url)),)}


async def indexed(house: House, *posts: UUID) -> None:
    async def all_of_them() -> bool:
        return set(posts) <= (await house.done(INDEXING)).keys()

    await until(all_of_them, f"{len(posts)} posts are indexed")
    await house.calm()


async def test_a_post_comes_into_both_indexes_changes_and_leaves_them(demo: House, town: Town, site: Site) -> None:
    city, market = town.open("gorod"), town.open("rynok")
    site.pages["/most"] = ARTICLE
    tram = town.say(city, TRAM)
    bridge = town.say(city, **linked(BRIDGE, f"{site.url}/most"))
    fair = town.say(market, "", file=card(1, "ЯРМАРКА ОТКРЫТА", "Начало ровно десять утра"))
    gone = town.say(market, "Коротко.")
    first, second = (
        town.say(market, words, grouped_id=77, file=card(number, title))
        for number, words, title in ((2, "Два новых снимка", "СЛАДКИЕ ГРУШИ"), (3, "", "СПЕЛЫЕ ЯБЛОКИ"))
    )
    await demo.watch(city, market)
    ingest = await demo.start("ingest")
    worker = await demo.start("worker")
    await until(lambda: demo.rows("SELECT 1 FROM post_enrichment WHERE kind = 'album'"), "the album is assembled")
    await indexed(demo, tram, bridge, fair, gone, first, second)
    await as_it_should_be_at_first(demo, bridge, fair, (first, second))
    before = (await due(demo.database))[tram]
    assert (before.text, before.entities[:1]) == (TRAM, (Named(EntityKind.PLACE, "Казань"),))

    town.world.edit(city, 1, LATER)
    town.world.delete(market, [2])
    await until(lambda: edited(demo, tram, before.content_hash), "the edit is tagged and indexed")
    await until(lambda: removed(demo, gone), "the deleted post is out of the indexes")
    await demo.calm()
    steps = await demo.trace(gone)
    assert steps[INDEXING]["note"] == "removed from the indexes"

    await worker.stop()
    await ingest.stop()
    wanted = await due(demo.database)
    assert wanted.keys() == {tram, bridge, fair, first, second}
    found = await held(demo.data, details=list(wanted))
    assert not difference(found, wanted)
    assert found.hashes[tram] == text_hash(LATER) != text_hash(before.text)
    assert found.details[tram] != before.node()
    assert Named(EntityKind.PLACE, "Челябинск") in (found.details[tram] or before.node()).entities


async def as_it_should_be_at_first(house: House, bridge: UUID, fair: UUID, album: tuple[UUID, UUID]) -> None:
    """What each stage made of its post, in the tables and in `tga trace`."""
    entries = await due(house.database)
    assert [page.title for page in entries[bridge].pages] == ["Мост закроют на месяц"]
    assert "светодиодными лампами" in entries[bridge].pages[0].text
    assert "Мост закроют на месяц" in entries[bridge].text
    assert len(entries[fair].pictures) == 1
    speaker = entries[album[0]]
    assert (speaker.album["items_count"], speaker.album["items_analyzed"], speaker.album["partial"]) == (2, 2, False)
    assert {entries[item].post.album_id for item in album} == {speaker.post.album_id} != {None}
    if READS:
        assert "ЯРМАРКА" in entries[fair].text
        assert any("ярмарка" in tag.lower() for tag in entries[fair].tags)
        assert "ГРУШИ" in speaker.text
        assert "ЯБЛОКИ" in speaker.text, "the post that stands for the album knows all its pictures"

    page, picture, item = await asyncio.gather(*(house.trace(post) for post in (bridge, fair, album[1])))
    every = {TELETHON_INGEST, TAGGING, TAG_PERSISTENCE, CRAWL_TRIGGER, INDEXING}
    assert page.keys() == every | {ENRICHMENT}
    assert picture.keys() == every | {VISION_ANALYSIS, RETAGGING}
    assert item.keys() == every | {VISION_ANALYSIS, RETAGGING, ALBUM_ASSEMBLER}
    assert len({page[stage]["trace_id"] for stage in page if stage != TELETHON_INGEST}) == 1
    assert picture[VISION_ANALYSIS]["trace_id"] == picture[RETAGGING]["trace_id"]


async def edited(house: House, post: UUID, before: str) -> bool:
    """Both stages have dealt with other words than before."""
    found = [(await house.done(stage)).get(post, before) for stage in (TAGGING, INDEXING)]
    return before not in found


async def removed(house: House, post: UUID) -> bool:
    statement = "SELECT 1 FROM post_steps WHERE post_id = :post AND stage = 'indexing' AND note LIKE 'removed%'"
    return bool(await house.rows(statement, post=post))


async def test_a_kill_in_the_middle_loses_nothing(alone: House, town: Town) -> None:
    """`tga up`, killed as soon as its first posts are tagged, and started again."""
    channels = [town.open(name) for name in ("sever", "yugra", "vostok", "zapad", "center")]
    posts = [town.say(channel, words(channel, number)) for number in range(24) for channel in channels]
    await alone.watch(*channels)
    first = await alone.start("up")
    captured = "SELECT 1 FROM posts HAVING count(*) = :posts"
    await until(lambda: alone.rows(captured, posts=len(posts)), "all posts are captured")
    await until(lambda: alone.done(TAGGING), "the first posts are tagged")
    await first.kill()
    at_the_kill = await alone.done(INDEXING)
    assert len(at_the_kill) < len(posts)

    second = await alone.start("up")
    await indexed(alone, *posts)
    await second.stop()
    wanted = await due(alone.database)
    assert wanted.keys() == set(posts)
    found = await held(alone.data, details=posts[:20])
    assert not difference(found, wanted)
    assert (found.vectors.total(), found.nodes.total()) == (len(posts), len(posts))
    assert await alone.rows("SELECT stage, reason FROM dead_letters") == []


def words(channel: Channel, number: int) -> str:
    return (
        f"Сообщение {number} канала {channel.title}: губернатор Иванов открыл школу номер {number} в новом районе,"
        " после этого строители рассказали, что будет дальше."
    )
