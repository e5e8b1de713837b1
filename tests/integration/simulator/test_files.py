"""Downloads: photos, documents, references that expire on the way, other data centres."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from telethon import errors
from telethon.tl import functions, types

from telegram_simulator.faults import Fault
from telegram_simulator.model import Channel, File, Kind, Message
from telegram_simulator.server import Simulator
from telegram_simulator.world import World

pytestmark = pytest.mark.integration

Connect = Callable[..., Awaitable[Any]]


@pytest.fixture
def photo() -> File:
    return File(71, -5, Kind.PHOTO, "image/jpeg", lambda: b"\xff\xd8" + b"photo" * 70_000, width=1200, height=800)


@pytest.fixture
def paper() -> File:
    return File(81, 6, Kind.DOCUMENT, "application/pdf", lambda: b"%PDF" + b"paper" * 60_000, name="доклад.pdf")


@pytest.fixture
async def client(world: World, news: Channel, photo: File, paper: File, connect: Connect) -> Any:
    world.post(news, Message(1, world.now(), "photo", file=photo))
    world.post(news, Message(2, world.now(), "paper", file=paper))
    return await connect()


async def test_a_photo_and_a_document_arrive_whole_though_their_references_expire(
    sim: Simulator, client: Any, photo: File, paper: File
) -> None:
    sim.faults.add(Fault("expire_references", "upload.getFile", skip=1, times=1))
    message = await client.get_messages("news_daily", ids=1)
    with pytest.raises(errors.FileReferenceExpiredError):
        await client.download_media(message, bytes)
    message = await client.get_messages("news_daily", ids=1)  # what an app does: ask again, take the new reference
    assert await client.download_media(message, bytes) == photo.data

    sim.faults.clear()
    sim.faults.add(Fault("expire_references", "upload.getFile", skip=1, times=1))
    message = await client.get_messages("news_daily", ids=2)
    assert message.file.name == "доклад.pdf"
    assert message.file.size == len(paper.data)
    assert await client.download_media(message, bytes) == paper.data  # for documents Telethon asks by itself
    assert sim.faults.fired["expire_references"] == 2


async def test_all_references_expire_with_time(world: World, client: Any) -> None:
    photo = await client.get_messages("news_daily", ids=1)
    world.expire_references()
    with pytest.raises(errors.FileReferenceExpiredError):
        await client.download_media(photo, bytes)
    assert await client.download_media(await client.get_messages("news_daily", ids=1), bytes)


async def test_a_thumbnail_is_another_picture(client: Any, photo: File) -> None:
    message = await client.get_messages("news_daily", ids=1)
    small = await client.download_media(message, bytes, thumb=0)
    assert small[:3] == b"\xff\xd8\xff"
    assert len(small) == message.photo.sizes[0].size < len(photo.data) == message.photo.sizes[1].size


async def test_a_file_that_ends_early_is_shorter_than_it_says(sim: Simulator, client: Any, paper: File) -> None:
    sim.faults.add(Fault("truncate_file", "upload.getFile", skip=1, times=1))
    message = await client.get_messages("news_daily", ids=2)
    got = await client.download_media(message, bytes)
    assert len(got) < message.file.size
    assert paper.data.startswith(got)


async def test_a_download_outlives_a_dropped_connection(sim: Simulator, client: Any, photo: File) -> None:
    sim.faults.add(
        Fault("drop", "upload.getFile", times=1),
        Fault("cut", "upload.getFile", skip=1, times=1),
        Fault("lose", "upload.getFile", skip=2, times=1),
    )
    message = await client.get_messages("news_daily", ids=1)
    assert await client.download_media(message, bytes) == photo.data
    assert sim.faults.fired == {"drop": 1, "cut": 1, "lose": 1}


async def test_what_does_not_exist_cannot_be_downloaded(client: Any, photo: File) -> None:
    def ask(**changed: Any) -> Any:
        wanted = {"id": 71, "access_hash": -5, "file_reference": photo.references[-1], "thumb_size": "y", **changed}
        return functions.upload.GetFileRequest(types.InputPhotoFileLocation(**wanted), offset=0, limit=4096)

    assert (await client(ask())).bytes == photo.data[:4096]
    for wrong in ({"id": 99}, {"access_hash": 1}, {"thumb_size": "w"}):
        with pytest.raises(errors.LocationInvalidError):
            await client(ask(**wrong))
    with pytest.raises(errors.FileReferenceInvalidError):
        await client(ask(file_reference=b"made up"))
    odd = ask()
    odd.limit = 1000
    with pytest.raises(errors.LimitInvalidError):
        await client(odd)


async def test_a_file_of_another_data_centre_needs_an_exported_login(
    sim: Simulator, client: Any, photo: File, fresh_session: Callable[[], Any]
) -> None:
    fresh_session()  # makes the server's key known, for the handshake with the other data centre
    location = types.InputPhotoFileLocation(71, -5, photo.references[-1], "y")
    assert await client.download_file(location, dc_id=4) == photo.data
    methods = [call.method for call in sim.rpc_log]
    assert "auth.exportAuthorization" in methods
    assert "auth.importAuthorization" in methods
    with pytest.raises(errors.DcIdInvalidError):
        await client(functions.auth.ExportAuthorizationRequest(2))
    with pytest.raises(errors.AuthBytesInvalidError):
        await client(functions.auth.ImportAuthorizationRequest(1001, b"made up"))


async def test_an_edited_picture_is_a_new_file(world: World, news: Channel, client: Any) -> None:
    fresh = File(72, 9, Kind.PHOTO, "image/png", lambda: b"\x89PNG" * 100, width=10, height=10)
    world.edit(news, 1, "new picture", file=fresh)
    message = await client.get_messages("news_daily", ids=1)
    assert message.photo.id == 72
    assert await client.download_media(message, bytes) == fresh.data
