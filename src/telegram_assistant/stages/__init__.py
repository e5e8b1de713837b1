"""The pipeline as a table: what each stage reads and writes (SPEC 4). Tested equal to the contract."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from telegram_assistant import names

SMALL = 4  # events at once where each takes long, so that several workers can share them


class Words(NamedTuple):
    """For people, in both languages."""

    en: str
    ru: str


@dataclass(frozen=True, slots=True)
class Row:
    """One line of SPEC 4. `also_*` is what we added to it, for edits, deletions and late results (G5)."""

    number: str
    stage: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    does: str
    title: Words
    told: Words  # what it did, in the path of a post
    about: Words  # for the page of the pipeline
    also_reads: tuple[str, ...] = ()
    also_writes: tuple[str, ...] = ()
    batch: int = 100  # events at once
    at_once: int = 2  # batches at once

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.reads + self.also_reads

    @property
    def outputs(self) -> tuple[str, ...]:
        return self.writes + self.also_writes


PIPELINE = (
    Row(
        "4.1",
        names.TELETHON_INGEST,
        (),
        (names.POSTS_PARSED, names.ALBUMS_PARSED),
        "captures posts, albums, edits, deletions and files",
        title=Words("Capture", "Захват постов"),
        told=Words("Read from Telegram and stored", "Прочитан из Telegram и сохранён"),
        about=Words("Reads the channels.", "Читает каналы."),
        also_writes=(names.POSTS_DELETED, names.MEDIA_SETTLED),
    ),
    Row(
        "4.2",
        names.POST_PERSISTENCE,
        (names.POSTS_PARSED,),
        (),
        "saves what another producer told of, and lets posts be found by their words",
        title=Words("Saving", "Сохранение"),
        told=Words("Stored", "Сохранён"),
        about=Words(
            "Lets posts be found by their words at once; saves those that another source told of.",
            "Сразу даёт находить посты по словам; сохраняет посты из других источников.",
        ),
    ),
    Row(
        "4.3",
        names.VISION_ANALYSIS,
        (names.POSTS_PARSED,),
        (names.POSTS_VISION_ANALYZED,),
        "looks at pictures, once per file",
        title=Words("Looking at pictures", "Разбор картинок"),
        told=Words("Pictures looked at", "Просмотрены картинки"),
        about=Words(
            "Reads text on pictures and says what they show, once per file.",
            "Читает текст на картинках и описывает их, каждый файл один раз.",
        ),
        batch=SMALL,
        also_reads=(names.MEDIA_SETTLED,),  # a post is saved before its files are there
    ),
    Row(
        "4.4",
        names.RETAGGING,
        (names.POSTS_VISION_ANALYZED,),
        (names.POSTS_TAGGED,),
        "tags again, knowing what vision saw",
        title=Words("Tagging again", "Повторные теги"),
        told=Words("Tagged again, with its pictures", "Метки уточнены по картинкам"),
        about=Words(
            "Finds tags again, knowing what the pictures show.", "Находит теги заново, зная, что на картинках."
        ),
        also_reads=(names.POSTS_RETAG,),  # on request
    ),
    Row(
        "4.5",
        names.TAGGING,
        (names.POSTS_PARSED,),
        (names.POSTS_TAGGED,),
        "tags, topics and entities",
        title=Words("Tagging", "Теги"),
        told=Words("Tagged", "Получил метки"),
        about=Words("Finds tags, topics, names and places.", "Находит теги, темы, имена и места."),
    ),
    Row(
        "4.6",
        names.TAG_PERSISTENCE,
        (names.POSTS_TAGGED,),
        (),
        "saves tags",
        title=Words("Saving tags", "Сохранение тегов"),
        told=Words("Tags stored", "Метки сохранены"),
        about=Words("Writes tags down.", "Записывает теги."),
    ),
    Row(
        "4.7",
        names.CRAWL_TRIGGER,
        (names.POSTS_TAGGED,),
        (names.POSTS_CRAWL,),
        "decides which links deserve reading",
        title=Words("Choosing links", "Выбор ссылок"),
        told=Words("Links sorted", "Отобраны ссылки"),
        about=Words("Decides which links deserve reading.", "Решает, какие ссылки стоит прочитать."),
        also_writes=(names.POSTS_ENRICHED,),  # for posts with nothing to read
    ),
    Row(
        "4.8",
        names.ENRICHMENT,
        (names.POSTS_CRAWL,),
        (names.POSTS_ENRICHED,),
        "reads the links",
        title=Words("Reading links", "Чтение ссылок"),
        told=Words("Linked pages read", "Прочитаны страницы по ссылкам"),
        about=Words("Reads the pages that posts link to.", "Читает страницы, на которые ссылаются посты."),
        batch=SMALL,
    ),
    Row(
        "4.9",
        names.INDEXING,
        (names.POSTS_ENRICHED,),
        (names.POSTS_INDEXED,),
        "puts posts into the vector index and the graph, and takes deleted ones out",
        title=Words("Indexing", "Индексация"),
        told=Words("Made searchable", "Добавлен в поиск"),
        about=Words(
            "Makes posts findable, and takes deleted ones out.", "Делает посты находимыми и убирает удалённые."
        ),
        also_reads=(names.POSTS_DELETED, names.POSTS_VISION_ANALYZED, names.ALBUM_ASSEMBLED),
        at_once=1,  # writers of an embedded index wait for each other anyway
    ),
    Row(
        "4.10",
        names.ALBUM_ASSEMBLER,
        (names.ALBUMS_PARSED, names.POSTS_VISION_ANALYZED),
        (names.ALBUM_ASSEMBLED,),
        "says what the pictures of an album show together",
        title=Words("Albums", "Альбомы"),
        told=Words("Album put together", "Собран альбом"),
        about=Words(
            "Says what the pictures of an album show together.", "Описывает, что вместе показывают картинки альбома."
        ),
    ),
)
ROWS = {row.stage: row for row in PIPELINE}
STAGES = tuple(row.stage for row in PIPELINE if row.inputs)
EVENTS = tuple(dict.fromkeys(event for row in PIPELINE for event in (*row.inputs, *row.outputs)))


def groups() -> Iterator[tuple[str, str]]:
    """Every event with every stage that reads it."""
    return ((event, row.stage) for row in PIPELINE for event in row.inputs)


def stage_says(stage: str, what: Literal["title", "told", "about"], *, language: str) -> str:
    """Its words for people; nothing for a stage of another version."""
    row = ROWS.get(stage)
    return "" if row is None else str(getattr(getattr(row, what), language))
