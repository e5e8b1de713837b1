"""Downloads: whole, in pieces, with references that expire, from other data centres, and cut short."""

from __future__ import annotations

from dataclasses import replace

import pytest

from telegram_assistant.domain.post import Media
from telegram_assistant.domain.retries import Failure
from telegram_assistant.domain.source import SourceError
from telegram_assistant.source.telegram_account import TelegramAccount
from telegram_simulator.faults import Fault
from telegram_simulator.model import Channel, File, Message
from telegram_simulator.server import Simulator
from telegram_simulator.world import World
from tests.integration.source.conftest import NEWS, START, document, picture

pytestmark = pytest.mark.integration

GET_FILE = "upload.getFile"
BIG = 1_300_000  # three pieces


async def posted(world: World, news: Channel, source: TelegramAccount, file: File) -> Media:
    """A file of a new post, as the source sees it."""
    message = world.post(news, Message(news.newest_id + 1, START, "file", file=file))
    post = (await source.channel(NEWS).by_ids([message.id]))[message.id]
    assert post is not None
    return post.media[0]


async def pieces(source: TelegramAccount, media: Media, message_id: int = 1) -> list[bytes]:
    return [piece async for piece in source.channel(NEWS).download(message_id, media)]


async def failure_of(source: TelegramAccount, media: Media) -> SourceError:
    with pytest.raises(SourceError) as caught:
        await pieces(source, media)
    return caught.value


def asked(sim: Simulator, method: str) -> int:
    return sum(call.method == method for call in sim.rpc_log)


@pytest.mark.parametrize("file", [picture(1), document(1, 5_000), document(1, BIG), document(1, 512 * 1024)])
async def test_whole_and_in_pieces(
    sim: Simulator, world: World, news: Channel, source: TelegramAccount, file: File
) -> None:
    got = await pieces(source, await posted(world, news, source, file))
    assert b"".join(got) == file.data
    assert max(map(len, got)) <= 512 * 1024
    assert asked(sim, GET_FILE) == len(got)


async def test_a_reference_that_expires_on_the_way(
    sim: Simulator, world: World, news: Channel, source: TelegramAccount
) -> None:
    file = document(1, BIG)
    media = await posted(world, news, source, file)
    sim.faults.add(Fault("expire_references", GET_FILE, skip=1, times=1))
    assert b"".join(await pieces(source, media)) == file.data
    assert asked(sim, GET_FILE) == 4


async def test_a_file_whose_reference_was_never_stored(world: World, news: Channel, source: TelegramAccount) -> None:
    file = picture(1)
    media = replace(await posted(world, news, source, file), reference=None)
    assert b"".join(await pieces(source, media)) == file.data


async def test_references_that_never_hold(sim: Simulator, world: World, news: Channel, source: TelegramAccount) -> None:
    media = await posted(world, news, source, picture(1))
    sim.faults.add(Fault("error", GET_FILE, code=400, message="FILE_REFERENCE_EXPIRED"))
    assert (await failure_of(source, media)).failure is Failure.REFERENCE_EXPIRED
    assert asked(sim, GET_FILE) == 4


async def test_a_message_that_is_gone(world: World, news: Channel, source: TelegramAccount) -> None:
    media = await posted(world, news, source, picture(1))
    world.expire_references()
    world.delete(news, [1])
    error = await failure_of(source, media)
    assert (error.failure, str(error)) == (Failure.GONE, "message 1 has this file no more")


async def test_a_message_that_has_another_file_now(world: World, news: Channel, source: TelegramAccount) -> None:
    media = await posted(world, news, source, picture(1))
    world.expire_references()
    world.edit(news, 1, "other", file=picture(2))
    assert (await failure_of(source, media)).failure is Failure.GONE


async def test_a_file_that_ends_early(sim: Simulator, world: World, news: Channel, source: TelegramAccount) -> None:
    media = await posted(world, news, source, document(1, BIG))
    sim.faults.add(Fault("truncate_file", GET_FILE, skip=1, times=1))
    error = await failure_of(source, media)
    assert error.failure is Failure.TRANSIENT
    assert "ended early" in str(error)


async def test_a_file_that_is_longer_than_announced(world: World, news: Channel, source: TelegramAccount) -> None:
    media = replace(await posted(world, news, source, document(1, 5_000)), size=4_999)
    error = await failure_of(source, media)
    assert error.failure is Failure.TRANSIENT
    assert "longer" in str(error)


async def test_a_file_in_another_data_centre(
    sim: Simulator, world: World, news: Channel, source: TelegramAccount
) -> None:
    file = document(1, BIG)
    media = await posted(world, news, source, file)
    sim.faults.add(Fault("error", GET_FILE, times=1, code=303, message="FILE_MIGRATE_4"))
    assert b"".join(await pieces(source, media)) == file.data
    assert asked(sim, "auth.importAuthorization") == 1


async def test_a_connection_lost_on_the_way(
    sim: Simulator, world: World, news: Channel, source: TelegramAccount
) -> None:
    file = document(1, BIG)
    media = await posted(world, news, source, file)
    sim.faults.add(Fault("cut", GET_FILE, skip=1, times=1))
    assert b"".join(await pieces(source, media)) == file.data
