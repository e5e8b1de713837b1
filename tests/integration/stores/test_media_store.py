"""The media store on a real folder, and on an object store without one (in memory): same code, same promises."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import sys
import tracemalloc
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import obstore
import pytest
from obstore.store import LocalStore, MemoryStore, ObjectStore

from telegram_assistant.domain.access import SYSTEM_TENANT
from telegram_assistant.errors import Fatal, Skip
from telegram_assistant.stores.media import INCOMING, MediaStore, MediaStoreError, S3Access

pytestmark = pytest.mark.integration

TENANT = UUID(SYSTEM_TENANT)
PIECE = 512 * 1024
BIG = 30 * 1024 * 1024
NOW = timedelta(0)

UPLOAD_AND_WAIT = """
import asyncio, sys, uuid
from telegram_assistant.stores.media import MediaStore

async def pieces():
    for _ in range(24):
        yield bytes(512 * 1024)
    print("under way", flush=True)
    await asyncio.Event().wait()

store = MediaStore.open(sys.argv[1])
asyncio.run(store.put(pieces(), tenant_id=uuid.uuid4(), extension="bin"))
"""


@pytest.fixture(params=["folder", "memory"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> LocalStore | MemoryStore:
    """What lies in the store, as others see it."""
    return MemoryStore() if request.param == "memory" else LocalStore(tmp_path / "media", mkdir=True)


@pytest.fixture
def store(objects: LocalStore | MemoryStore, tmp_path: Path) -> MediaStore:
    if isinstance(objects, MemoryStore):
        return MediaStore(objects, shown="memory")
    return MediaStore.open(tmp_path / "media")


async def pieces(data: bytes, *, error: Exception | None = None) -> AsyncIterator[bytes]:
    for start in range(0, len(data), PIECE):
        yield data[start : start + PIECE]
    if error is not None:
        raise error


async def read(store: MediaStore, key: str) -> bytes:
    return b"".join([piece async for piece in store.stream(key)])


def keys(objects: ObjectStore) -> set[str]:
    return {found["path"] for batch in obstore.list(objects) for found in batch}


@pytest.mark.parametrize("size", [0, 1, PIECE, PIECE * 13 + 7], ids=["empty", "a byte", "a piece", "parts"])
async def test_spec_8_a_file_is_kept_under_its_hash(store: MediaStore, objects: ObjectStore, size: int) -> None:
    data = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    sha = hashlib.sha256(data).hexdigest()
    kept = await store.put(pieces(data), tenant_id=TENANT, extension="pdf")
    assert (kept.sha256, kept.size) == (sha, size)
    assert kept.key == f"media/{SYSTEM_TENANT}/{sha[:2]}/{sha}.pdf"
    assert await read(store, kept.key) == data
    assert await store.size_of(kept.key) == size
    assert keys(objects) == {kept.key}


async def test_the_same_bytes_are_kept_once(store: MediaStore, objects: ObjectStore) -> None:
    data = b"picture" * 1000
    first = await store.put(pieces(data), tenant_id=TENANT, extension="jpg")
    before = obstore.head(objects, first.key)
    second = await store.put(pieces(data), tenant_id=TENANT, extension="jpg")
    assert second == first
    assert keys(objects) == {first.key}
    assert obstore.head(objects, first.key)["last_modified"] == before["last_modified"], "it was written again"


async def test_many_at_once_do_not_disturb_each_other(store: MediaStore, objects: ObjectStore) -> None:
    files = [b"%d" % (number % 5) * 700_000 for number in range(20)]
    kept = await asyncio.gather(
        *(store.put(pieces(data), tenant_id=TENANT, extension="bin") for data in files),
    )
    for data, file in zip(files, kept, strict=True):
        assert await read(store, file.key) == data
    assert keys(objects) == {file.key for file in kept}
    assert len(keys(objects)) == 5


@pytest.mark.parametrize("size", [10, PIECE * 20], ids=["small", "parts"])
async def test_an_upload_that_fails_leaves_nothing_and_says_why(
    store: MediaStore, objects: ObjectStore, size: int
) -> None:
    with pytest.raises(LookupError, match="lost on the way"):
        await store.put(pieces(bytes(size), error=LookupError("lost on the way")), tenant_id=TENANT, extension="bin")
    assert keys(objects) == set()
    assert await store.clean(older_than=NOW) == 0


async def test_a_cancelled_upload_leaves_nothing(store: MediaStore, objects: ObjectStore) -> None:
    reached = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield bytes(PIECE)
        reached.set()
        await asyncio.Event().wait()

    upload = asyncio.ensure_future(store.put(endless(), tenant_id=TENANT, extension="bin"))
    await reached.wait()
    upload.cancel()
    with pytest.raises(asyncio.CancelledError):
        await upload
    assert keys(objects) == set()
    assert await store.clean(older_than=NOW) == 0


async def test_files_that_are_not_there(store: MediaStore) -> None:
    assert not await store.exists("media/nothing.bin")
    await store.delete("media/nothing.bin")
    with pytest.raises(Skip, match=r"media/nothing\.bin is not in the media store"):
        await read(store, "media/nothing.bin")


async def test_a_deleted_file_is_gone_and_may_come_back(store: MediaStore) -> None:
    kept = await store.put(pieces(b"x"), tenant_id=TENANT, extension="bin")
    await store.delete(kept.key)
    assert not await store.exists(kept.key)
    assert await store.put(pieces(b"x"), tenant_id=TENANT, extension="bin") == kept
    assert await store.exists(kept.key)


async def test_cleaning_takes_old_uploads_only(store: MediaStore, objects: ObjectStore) -> None:
    kept = await store.put(pieces(b"x"), tenant_id=TENANT, extension="bin")
    await obstore.put_async(objects, f"{INCOMING}/left", b"of a process that died")
    assert await store.clean(older_than=timedelta(hours=1)) == 0
    assert await store.clean(older_than=NOW) == 1
    assert keys(objects) == {kept.key}
    assert await store.clean(older_than=NOW) == 0


async def test_a_killed_upload_is_cleaned(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", UPLOAD_AND_WAIT, str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"under way\n"
    process.send_signal(signal.SIGKILL)
    await process.wait()
    left = list((tmp_path / INCOMING).iterdir())
    assert len(left) == 1
    assert left[0].stat().st_size > 0

    store = MediaStore.open(tmp_path)
    assert keys(LocalStore(tmp_path)) == set()
    assert await store.clean(older_than=timedelta(hours=1)) == 0
    hour_ago = left[0].stat().st_mtime - 3601
    os.utime(left[0], (hour_ago, hour_ago))
    assert await store.clean(older_than=timedelta(hours=1)) == 1
    assert list((tmp_path / INCOMING).iterdir()) == []


async def test_a_file_is_never_whole_in_memory(tmp_path: Path) -> None:
    store = MediaStore.open(tmp_path)

    async def made_on_the_way() -> AsyncIterator[bytes]:
        for number in range(BIG // PIECE):
            yield number.to_bytes(4, "big") * (PIECE // 4)

    tracemalloc.start()
    try:
        kept = await store.put(made_on_the_way(), tenant_id=TENANT, extension="bin")
        total = 0
        async for piece in store.stream(kept.key):
            total += len(piece)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert total == kept.size == BIG
    assert peak < 6 * 1024 * 1024


async def test_check_leaves_nothing(store: MediaStore, objects: ObjectStore) -> None:
    await store.check()
    assert keys(objects) == set()


async def test_a_folder_that_cannot_be_used_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(Fatal, match=r"Cannot keep media in .*file") as caught:
        MediaStore.open(tmp_path / "file" / "media")
    assert "\n" not in str(caught.value)

    store = MediaStore.open(tmp_path)
    (tmp_path / INCOMING).write_text("in the way")
    with pytest.raises(MediaStoreError, match=f"could not write to {tmp_path}") as failed:
        await store.put(pieces(b"x"), tenant_id=TENANT, extension="bin")
    assert "\n" not in str(failed.value)
    with pytest.raises(Fatal, match="Cannot use the media store: could not write"):
        await store.check()


def test_addresses(tmp_path: Path) -> None:
    access = S3Access(endpoint="http://127.0.0.1:9", region="eu", access_key_id="id", secret_access_key="hidden")
    assert "hidden" not in repr(access)
    assert MediaStore.open("s3://bucket/prefix", s3=access).shown == "s3://bucket/prefix"
    assert MediaStore.open(f"file://{tmp_path}/a").shown == f"{tmp_path}/a"
    with pytest.raises(Fatal, match="neither a folder nor s3"):
        MediaStore.open("ftp://host/folder")


async def test_an_s3_that_does_not_answer_is_said_in_one_line(unused_tcp_port: int) -> None:
    access = S3Access(
        endpoint=f"http://127.0.0.1:{unused_tcp_port}", region="eu", access_key_id="id", secret_access_key="hidden"
    )
    with pytest.raises(Fatal, match="Cannot use the media store: could not write to s3://bucket") as caught:
        await MediaStore.open("s3://bucket", s3=access).check()
    assert "\n" not in str(caught.value)
    assert "hidden" not in str(caught.value)
