"""Without an account: a real-looking channel is added by its public preview, and goes on when an account comes (G8)."""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from telegram_assistant.config import Settings
from telegram_simulator.model import Channel, Counters, File, Kind, Message, User
from telegram_simulator.preview import PreviewPages
from telegram_simulator.server import Simulator
from telegram_simulator.world import World
from tests.e2e.conftest import Starter, Tga

pytestmark = pytest.mark.e2e

NEWS, POSTS = 1001, 70
NOW = datetime.now(UTC).replace(microsecond=0)
PICTURE = bytes.fromhex(  # grey, 8 x 8 pixels
    "ffd8ffe000104a46494600010100000100010000ffdb004300ffffffffffffffffffffffffffffffffffffffffffffff"
    "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
    "ffc0000b080008000801011100ffc40014000100000000000000000000000000000003ffc400141001000000000000000000"
    "00000000000000ffda0008010100003f0037ffd9"
)


def make_world() -> World:
    world = World()
    world.add_user(User(5001, 77, "Reader", phone="79990000001"))
    news = world.add_channel(Channel(NEWS, 11, "News", "the_news", NOW - timedelta(days=9), subscribers=12_345))
    for number in range(1, POSTS + 1):
        message = Message(number, NOW - timedelta(hours=POSTS + 1 - number), f"Post {number} about the harbour")
        message.counters = Counters(views=1_000 + 37 * number)
        if number % 10 in {3, 4}:
            message.grouped_id = 9_000 + number // 10
            message.file = File(5_000 + number, 1, Kind.PHOTO, "image/jpeg", lambda: PICTURE, width=8, height=8)
        world.post(news, message)
    world.delete(news, [11, 12, 40])
    return world


async def command(tga: Tga, *words: str) -> str:
    ours = {name.upper() for name in Settings.model_fields}
    env = {name: value for name, value in os.environ.items() if name not in ours}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "telegram_assistant", *words),
        env={**env, "TGA_DATA_DIR": str(tga.data), "COLUMNS": "200", "PREVIEW_HOSTS": ""},
        cwd=tga.data.parent,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await asyncio.wait_for(process.communicate(), 300)
    return out.decode()


async def until(tga: Tga, statement: str, wanted: object) -> None:
    found = None
    for _ in range(1500):
        found = await tga.query(statement)
        if found == wanted:
            return
        await asyncio.sleep(0.2)
    pytest.fail(f"{statement}: {found}, not {wanted}; {tga.err()[-3000:]}")


OF_NEWS = "FROM posts WHERE channel_id = 1001 AND deleted_at IS NULL"
UNKNOWN = (
    "SELECT coalesce(sum(upper(r) - lower(r)), 0)::int FROM channels, unnest(int8multirange(int8range(requested_from,"
    " newest_id + 1)) - coverage) AS r WHERE id = 1001"
)
FILES = (
    "SELECT count(*)::int FROM post_media m JOIN posts p ON p.id = m.post_id"
    " WHERE p.channel_id = 1001 AND m.status = 'stored'"
)
VERSIONS = "SELECT count(*) FROM post_versions v JOIN posts p ON p.id = v.post_id WHERE p.channel_id = 1001"


async def test_a_channel_by_its_preview_and_then_by_an_account(start: Starter, place: Path) -> None:
    world = make_world()
    shown = len(world.channels[NEWS].messages)
    async with PreviewPages(world) as web, Simulator(world) as sim:
        tga = await (await start(PREVIEW_HOSTS=web.address, PREVIEW_PAUSE_SEC="0")).ready()
        assert "is watched now" in await command(tga, "channels", "add", "@the_news")
        assert "no channel has this name" in await command(tga, "channels", "add", "@no_such_channel_here")
        await until(tga, f"SELECT count(*) > 20 {OF_NEWS}", wanted=True)
        await tga.query("UPDATE channels SET history_from = '2013-01-01' WHERE id = $1", NEWS)
        await until(tga, f"SELECT count(*)::int {OF_NEWS}", shown)
        await until(tga, UNKNOWN, 0)
        await until(tga, FILES, 14)
        before = await tga.query(f"SELECT array_agg(id ORDER BY message_id)::text {OF_NEWS}")
        assert await tga.query(f"SELECT bool_and(details ? 'preview') {OF_NEWS}")
        assert (await tga.stop()).code == 0

        key = place / "key.pem"
        key.write_text(sim.public_key_pem, encoding="ascii")
        tga = await (
            await start(
                TELEGRAM_API_ID="1",
                TELEGRAM_API_HASH="hash",
                TELEGRAM_SESSION=sim.session(5001),
                TELEGRAM_SERVER=sim.address,
                TELEGRAM_RSA_KEY=str(key),
                TELEGRAM_PACING_ENABLED="false",
                PREVIEW_HOSTS=web.address,
            )
        ).ready()
        await until(tga, f"SELECT count(*)::int {OF_NEWS} AND details ? 'preview'", 0)
        exact = sum(one.counters.views for one in world.channels[NEWS].messages.values())
        await until(tga, f"SELECT sum(views)::int {OF_NEWS}", exact)
        assert await tga.query(f"SELECT array_agg(id ORDER BY message_id)::text {OF_NEWS}") == before
        assert await tga.query(VERSIONS) == 0
        assert await tga.query(UNKNOWN) == 0
        assert await tga.query("SELECT count(*) FROM media_groups WHERE channel_id = 1001") == 7
        assert (await tga.stop()).code == 0
