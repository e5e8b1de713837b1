"""`tga search` and `tga ask`: found, shown and answered in a terminal, also beside a running `tga up`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from telegram_assistant.index.edge_vectors import EdgeVectors
from telegram_assistant.language.documents import make_document
from telegram_assistant.language.inflection import Inflection
from telegram_assistant.language.lexemes import Lexicon
from telegram_assistant.stages.index_entry import EntryReader, source_of
from telegram_assistant.stores.postgres.search import SearchDocuments
from tests.integration.stages.desk import CHANNEL, FOOTBALL, SYSTEM, WEATHER, Desk, post

pytestmark = pytest.mark.integration

Tga = Any  # of conftest.py, which cannot be imported


@pytest.fixture
async def filled(desk: Desk) -> Desk:
    """Three posts in the full-text index; no vectors."""
    posts = [post(1, WEATHER), post(2, FOOTBALL), post(3, "[red]нефть[/red] <b>дорожает</b>")]
    await desk.change(
        "INSERT INTO subscriptions (tenant_id, user_id, channel_id) SELECT tenant_id, id, :channel FROM users",
        channel=CHANNEL,
    )
    await desk.save(*posts)
    entries = EntryReader(desk.stored_posts, desk.enrichments, desk.pages, desk.pictures)
    lexicon = Lexicon(Inflection())
    found = await entries.read([one.id for one in posts])
    await SearchDocuments(desk.database).put([make_document(source_of(entry), lexicon) for entry in found.values()])
    return desk


@pytest.mark.usefixtures("filled")
async def test_posts_are_found_and_shown(tga: Tga) -> None:
    printed = await tga("search", "погода", "в", "Москве", "-спартак", "has:nothing")
    assert printed.code == 0, printed.out
    assert "Channel 77" in printed.out
    assert "https://t.me/news/1" in printed.words
    assert "Спартак" not in printed.out
    assert "has:nothing is not known" in printed.words
    assert "nothing was found" in (await tga("search", "бегемот")).out
    empty = await tga("search", "спартак", "is:edited")
    assert "without is:edited, 1 found: tga search 'спартак'" in empty.words
    assert "1 found" in (await tga("search", "спартак")).words
    assert "a quotation mark has no pair" in (await tga("search", '"погода в Москве')).words


@pytest.mark.usefixtures("filled")
async def test_what_a_stranger_wrote_is_shown_as_it_is(tga: Tga) -> None:
    assert "[red]нефть[/red] <b>дорожает</b>" in (await tga("search", "нефть")).out


@pytest.mark.usefixtures("filled")
async def test_pages_and_json(tga: Tga) -> None:
    first = json.loads((await tga("search", "channel:@news", "--limit", "2", "--json")).out)
    assert [hit["url"] for hit in first["hits"]] == ["https://t.me/news/3", "https://t.me/news/2"]
    assert first["facets"]["channels"] == [{"value": str(CHANNEL), "posts": 3, "title": "Channel 77"}]
    shown = await tga("search", "channel:@news", "--limit", "2")
    assert f"--cursor {first['cursor'][:20]}" in shown.words
    second = await tga("search", "channel:@news", "--limit", "2", "--cursor", first["cursor"], "--json")
    assert [hit["url"] for hit in json.loads(second.out)["hits"]] == ["https://t.me/news/1"]
    wrong = await tga("search", "погода", "--cursor", "nonsense")
    assert wrong.code == 1
    assert "cursor" in wrong.out
    [hit] = json.loads((await tga("search", "=погоду", "--newest", "--json")).out)["hits"]
    assert [hit["snippet"][start:end] for start, end in hit["spans"]] == ["погоду"]


@pytest.mark.usefixtures("filled")
async def test_beside_a_running_assistant_words_alone_are_searched(tga: Tga, environment: dict[str, str]) -> None:
    held = EdgeVectors(Path(environment["TGA_DATA_DIR"]) / "vectors")
    await held.current(SYSTEM)
    printed = await tga("search", "погода")
    await held.close()
    assert "by words alone, not by meaning: Another process holds the vector index" in printed.words
    assert "https://t.me/news/1" in printed.words


@pytest.mark.usefixtures("filled")
async def test_a_question_is_answered_with_its_sources(tga: Tga) -> None:
    printed = await tga("ask", "Кто", "обыграл", "Зенит", "в", "финале", "Кубка", "России?")
    assert printed.code == 0, printed.out
    assert "Спартак" in printed.words
    assert "[1] Channel 77" in printed.words
    assert "https://t.me/news/2" in printed.words
    unknown = json.loads((await tga("ask", "Сколько стоит бегемот?", "--json")).out)
    assert unknown["answer"] == "not in your channels"
    assert unknown["sources"] == []
