"""Lists of channels, in and out; and many channels changed at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from telegram_assistant.domain.access import SYSTEM_TENANT, SYSTEM_USER
from tests.integration.commands.conftest import Tga

pytestmark = pytest.mark.integration


async def test_a_list_is_added_and_exported(tga: Tga, database: AsyncEngine, folder: Path) -> None:
    async with database.begin() as connection:
        await connection.execute(text("INSERT INTO channels (id, title, username) VALUES (7, 'The News', 'the_news')"))
        await connection.execute(
            text("INSERT INTO subscriptions (tenant_id, user_id, channel_id) VALUES (:tenant, :user, 7)"),
            {"tenant": SYSTEM_TENANT, "user": SYSTEM_USER},
        )
    exported = await tga("channels", "export")
    assert 'htmlUrl="https://t.me/the_news"' in exported.out
    file = folder / "list.opml"
    more = '<outline text="@durov"/><outline text="my own words"/></body>'
    file.write_text(exported.out.replace("</body>", more), encoding="utf-8")
    added = await tga("channels", "add", "--file", str(file))
    assert "my own words: not added" in added.words
    assert "1 noted, 1 known already, 1 not understood" in added.words
    assert "0 noted, 2 known already" in (await tga("channels", "add", "--file", str(file))).words
    assert "https://t.me/the_news,The News,7,\n" in (await tga("channels", "export", "--format", "csv")).out


async def test_bad_lists_say_what_is_wrong(tga: Tga, folder: Path) -> None:
    (folder / "broken.opml").write_text("<opml><body>", encoding="utf-8")
    (folder / "bytes").write_bytes(b"\xff\xfe\x00")
    for name, said in (("broken.opml", "broken"), ("bytes", "no text in UTF-8"), ("missing", "cannot be read")):
        failed = await tga("channels", "add", "--file", str(folder / name))
        assert (failed.code, said in failed.words) == (1, True), failed.words
    assert "name a channel" in (await tga("channels", "add")).words


@pytest.fixture
async def _two(database: AsyncEngine) -> None:
    """Channels that the operator's tenant watches."""
    async with database.begin() as connection:
        for number, name in ((7, "the_news"), (8, "the_sport")):
            await connection.execute(
                text("INSERT INTO channels (id, title, username) VALUES (:id, :name, :name)"),
                {"id": number, "name": name},
            )
            await connection.execute(
                text("INSERT INTO subscriptions (tenant_id, user_id, channel_id) VALUES (:tenant, :user, :id)"),
                {"tenant": SYSTEM_TENANT, "user": SYSTEM_USER, "id": number},
            )


@pytest.mark.usefixtures("_two")
async def test_pause_resume_and_group(tga: Tga, database: AsyncEngine, folder: Path) -> None:
    paused = await tga("channels", "pause", "@the_news", "@not_there", "@the_sport")
    assert (paused.code, "@not_there is not watched" in paused.words) == (1, True)
    async with database.connect() as connection:
        assert (await connection.execute(text("SELECT status FROM channels"))).scalars().all() == ["paused"] * 2
        log = text("SELECT count(*) FROM audit_log WHERE action = 'channel_paused'")
        assert (await connection.execute(log)).scalar_one() == 2
    for command in (("parse",), ("backfill", "--all")):
        assert "tga channels resume" in (await tga(command[0], "@the_news", *command[1:])).words
    assert "is paused" in (await tga("channels", "explain", "@the_news")).words
    assert "in the group my papers" in (await tga("channels", "group", "@the_news", "my papers")).words
    listed = json.loads((await tga("channels", "list", "--group", "my papers", "--json")).out)["channels"]
    assert [(one["username"], one["group"], one["status"]) for one in listed] == [("the_news", "my papers", "paused")]
    assert listed[0]["paused_at"]
    file = folder / "paused.opml"
    file.write_text((await tga("channels", "export")).out, encoding="utf-8")
    assert "2 noted" in (await tga("channels", "add", "--file", str(file))).words, "what is paused is resumed"
    assert "is read again" in (await tga("channels", "resume", "@the_news", "@the_sport")).words
    assert "in no group" in (await tga("channels", "group", "@the_news", "")).words
    assert json.loads((await tga("channels", "list", "--group", "my papers", "--json")).out)["channels"] == []


@pytest.mark.usefixtures("_two")
async def test_what_only_others_watch_is_theirs_to_pause(tga: Tga, database: AsyncEngine) -> None:
    async with database.begin() as connection:
        await connection.execute(text("DELETE FROM subscriptions"))
    refused = await tga("channels", "pause", "@the_news")
    assert (refused.code, "not watched by your tenant" in refused.words) == (1, True)


@pytest.mark.usefixtures("_two")
async def test_many_at_once_and_what_is_wrong_with_one_stops_no_other(tga: Tga, database: AsyncEngine) -> None:
    changed = await tga("channels", "priority", "@the_news", "@nobody_here", "@the_sport", "10")
    assert "@nobody_here" in changed.words
    assert changed.code == 1
    async with database.connect() as connection:
        assert (await connection.execute(text("SELECT priority FROM channels"))).scalars().all() == [10, 10]
    assert (await tga("channels", "remove", "@the_news", "@the_sport")).code == 0
    async with database.connect() as connection:
        assert (await connection.execute(text("SELECT status FROM channels"))).scalars().all() == ["removed"] * 2
