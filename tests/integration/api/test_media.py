"""Files through the API: as what they are, in parts, and only to who sees a post with them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from io import BytesIO
from typing import Any
from uuid import UUID

import pytest
from fastapi import FastAPI
from PIL import Image

from telegram_assistant.access.credentials import Signer
from telegram_assistant.domain.post import Media, MediaKind
from telegram_assistant.errors import Skip
from telegram_assistant.services.media_links import MediaLinks, Thumbnails
from telegram_assistant.services.services import Services
from telegram_assistant.stores.media import MediaStore
from telegram_assistant.stores.postgres.post_views import KeptFile
from tests.integration.api.newsroom import Newsroom
from tests.integration.stages.desk import Desk, drawing

pytestmark = pytest.mark.integration

Town = Any  # of conftest.py, which cannot be imported
ClientOf = Any
PRIVATE = 300
PICTURE = drawing(1, (800, 600))


@pytest.fixture
def newsroom(town: Town, services: Services) -> Newsroom:
    return Newsroom(town.archive, Desk(services.database, services.redis, services.media))


@pytest.fixture
async def thumbnails(app: FastAPI, services: Services) -> AsyncIterator[Thumbnails]:
    made = Thumbnails(services.media)
    app.state.services = replace(app.state.services, thumbnails=made)
    yield made
    await made.close()


async def stored(newsroom: Newsroom, content: bytes, *, name: str | None = None, mime: str = "image/png") -> str:
    """The address of a file with this content; what its sender says of it need not be true."""
    media = Media(kind=MediaKind.DOCUMENT, file_id=f"{newsroom.channel}-9", mime=mime, name=name)
    one = newsroom.post(9, media=(media,))
    await newsroom.save(one)
    return f"/api/v1/media/{await newsroom.desk.store(one, content, mime=mime)}"


async def test_a_picture_is_shown_as_what_it_is(town: Town, client_of: ClientOf, newsroom: Newsroom) -> None:
    address = await stored(newsroom, PICTURE, mime="text/html")
    answer = await client_of(town.member).get(address)
    assert answer.content == PICTURE
    assert answer.headers["content-type"] == "image/png", "by its bytes, not by what was said"
    assert answer.headers["content-security-policy"] == "sandbox; default-src 'none'"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"].startswith("private")
    assert "content-disposition" not in answer.headers


@pytest.mark.parametrize(
    "content, names",
    [
        (b"<script>alert(1)</script>", ("page.html", "page.html")),
        (b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>", ("a.svg", "a.svg")),
        (b"%PDF-1.7", ("отчёт.pdf", "%D0%BE%D1%82%D1%87%D1%91%D1%82.pdf")),
        (b"MZ", ("../../etc/passwd", "etc_passwd")),
        (b"x", ('a"\r\nSet-Cookie: b=1', "a___Set-Cookie_%20b%3D1")),
        (b"", (None, sha256(b"").hexdigest()[:16])),
    ],
)
async def test_anything_else_can_only_be_saved(
    town: Town, client_of: ClientOf, newsroom: Newsroom, content: bytes, names: tuple[str | None, str]
) -> None:
    answer = await client_of(town.member).get(await stored(newsroom, content, name=names[0], mime="text/html"))
    assert answer.content == content
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == f"attachment; filename*=UTF-8''{names[1]}"
    assert "set-cookie" not in answer.headers


async def test_a_file_comes_in_parts(town: Town, client_of: ClientOf, newsroom: Newsroom) -> None:
    content = bytes(range(256)) * 4000  # more than one piece of the store
    address = await stored(newsroom, content)
    client = client_of(town.member)
    for asked, start, end in (
        ("bytes=0-0", 0, 1),
        ("bytes=100-299999", 100, 300_000),
        ("bytes=1023999-", 1_023_999, 1_024_000),
        ("bytes=-5", 1_023_995, 1_024_000),
        ("bytes=5-99999999", 5, 1_024_000),
    ):
        answer = await client.get(address, headers={"Range": asked})
        assert (answer.status_code, answer.content) == (206, content[start:end]), asked
        assert answer.headers["content-range"] == f"bytes {start}-{end - 1}/1024000"
        assert answer.headers["content-length"] == str(end - start)
    for asked in ("bytes=1024000-", "bytes=-0"):
        answer = await client.get(address, headers={"Range": asked})
        assert (answer.status_code, answer.headers["content-range"]) == (416, "bytes */1024000"), asked
    for asked in ("bytes=5-2", "bytes=0-1,5-6", "lines=1-2", "bytes=-", "nonsense"):
        assert (await client.get(address, headers={"Range": asked})).status_code == 200, asked
    whole = await client.get(address, headers={"Range": "bytes=0-0", "If-Range": '"another"'})
    assert (whole.status_code, len(whole.content)) == (200, len(content))


@pytest.mark.usefixtures("thumbnails")
async def test_a_file_that_one_has_is_not_sent_again(town: Town, client_of: ClientOf, newsroom: Newsroom) -> None:
    address = await stored(newsroom, PICTURE)
    client = client_of(town.member)
    for one in (address, f"{address}/thumbnail"):
        tag = (await client.get(one)).headers["etag"]
        again = await client.get(one, headers={"If-None-Match": f'"other", W/{tag}'})
        assert (again.status_code, again.content) == (304, b"")


@pytest.mark.usefixtures("thumbnails")
async def test_thumbnails_are_small_and_plain(town: Town, client_of: ClientOf, newsroom: Newsroom) -> None:
    client = client_of(town.member)
    address = await stored(newsroom, PICTURE)
    for width in (160, 320, 640, 1280):
        answer = await client.get(f"{address}/thumbnail", params={"width": width})
        assert answer.headers["content-type"] == "image/webp"
        with Image.open(BytesIO(answer.content)) as image:
            assert image.width == min(width, 800)
    for wrong in ("1", "99999", "-1", "many"):
        assert (await client.get(f"{address}/thumbnail", params={"width": wrong})).status_code == 422, wrong


@pytest.mark.usefixtures("thumbnails")
async def test_what_is_no_picture_has_no_thumbnail(town: Town, client_of: ClientOf, newsroom: Newsroom) -> None:
    address = await stored(newsroom, b"no picture at all")
    for _ in range(2):
        answer = await client_of(town.member).get(f"{address}/thumbnail")
        assert answer.status_code == 404
        assert "no preview" in answer.json()["detail"]


async def test_thumbnails_are_kept_while_there_is_room(services: Services) -> None:
    """Made once each; the oldest goes first."""
    small = Thumbnails(services.media, most_kept=2500)
    files = [await _put(services.media, drawing(seed, (400, 300))) for seed in (1, 2, 3)]
    first = await small.thumbnail(files[0], 160)
    await services.media.delete(files[0].storage_key)
    assert await small.thumbnail(files[0], 160) == first, "not made again"
    for file in files[1:]:
        await small.thumbnail(file, 160)
        await services.media.delete(file.storage_key)
    sizes = [await _kept(small, file) for file in files]
    assert sum(sizes) <= 2500
    assert sizes[0] == 0 < sizes[2]
    await small.close()


async def _kept(thumbnails: Thumbnails, file: KeptFile) -> int:
    """The size of one that can be had without its file."""
    try:
        return len(await thumbnails.thumbnail(file, 160))
    except Skip:
        return 0


@pytest.mark.usefixtures("thumbnails")
async def test_another_tenants_file_is_not_there(town: Town, client_of: ClientOf, newsroom: Newsroom) -> None:
    address = await stored(Newsroom(town.archive, newsroom.desk, PRIVATE), PICTURE)
    for one in (address, f"{address}/thumbnail"):
        assert (await client_of(town.other_member).get(one)).status_code == 200
        assert (await client_of(town.admin).get(one)).status_code == 404
        assert (await client_of().get(one)).status_code == 401


async def test_who_has_the_same_file_sees_it(town: Town, client_of: ClientOf, newsroom: Newsroom) -> None:
    """It is kept once; each tenant sees it through a post of its own."""
    secret = await stored(Newsroom(town.archive, newsroom.desk, PRIVATE), PICTURE)
    assert (await client_of(town.member).get(secret)).status_code == 404
    assert await stored(newsroom, PICTURE) == secret
    assert (await client_of(town.member).get(secret)).status_code == 200


@dataclass(frozen=True)
class Signed:
    """A signed address, to be changed."""

    sha256: str
    links: MediaLinks

    def with_(self, **changes: Any) -> str:
        return replace(self.links, **changes).file(self.sha256)


@pytest.mark.usefixtures("thumbnails")
async def test_a_signed_address_opens_without_a_credential(
    town: Town, client_of: ClientOf, newsroom: Newsroom, services: Services
) -> None:
    name = (await stored(newsroom, PICTURE)).rpartition("/")[2]
    now, tenant = datetime.now(UTC), town.member.tenant_id
    signed = Signed(name, MediaLinks(services.signer, tenant, now))
    nobody = client_of()
    assert (await nobody.get(signed.with_())).content == PICTURE
    assert (await nobody.get(signed.links.thumbnail(name, 320))).status_code == 200
    for wrong in (
        signed.with_(now=now - timedelta(hours=3)),
        signed.with_(signer=Signer("another key")),
        signed.with_().replace(str(tenant), str(town.other.tenant_id)),
        signed.with_().replace(name, "0" * 64),
        signed.with_() + "x",
        f"/api/v1/media/{name}?tenant={tenant}&signature=1.%00",
        f"/api/v1/media/{name}?tenant={tenant}&signature=99999999999999.%D8%00",
    ):
        assert (await nobody.get(wrong)).status_code == 403, wrong
    assert (await nobody.get(f"/api/v1/media/{name}?signature=1.a")).status_code == 400
    assert (await nobody.get(f"/api/v1/media/{name}?tenant=me&signature=1.a")).status_code == 422
    # Signed by us, but for who does not see the post.
    assert (await nobody.get(signed.with_(tenant_id=town.other.tenant_id))).status_code == 404


@pytest.mark.usefixtures("thumbnails")
async def test_a_signed_address_ends_with_the_subscription(
    town: Town, client_of: ClientOf, newsroom: Newsroom, services: Services
) -> None:
    name = (await stored(newsroom, PICTURE)).rpartition("/")[2]
    links = MediaLinks(services.signer, town.member.tenant_id, datetime.now(UTC))
    nobody = client_of()
    addresses = [links.file(name), links.thumbnail(name, 320)]
    for address in addresses:
        assert (await nobody.get(address)).status_code == 200
    await newsroom.unsubscribe()
    for address in addresses:
        assert (await nobody.get(address)).status_code == 404, "also what has been made and kept"


@pytest.mark.parametrize("wrong", ["0" * 63, "Z" * 64, "..%2F..%2Fetc%2Fpasswd", "%00", "0" * 10_000])
async def test_a_wrong_name_is_no_file(town: Town, client_of: ClientOf, wrong: str) -> None:
    assert (await client_of(town.member).get(f"/api/v1/media/{wrong}")).status_code in {404, 422}


async def test_a_file_that_the_store_lost_is_not_there(
    town: Town, client_of: ClientOf, newsroom: Newsroom, services: Services
) -> None:
    address = await stored(newsroom, PICTURE)
    ((key,),) = await town.archive.rows("SELECT storage_key FROM media_objects")
    await services.media.delete(key)
    assert (await client_of(town.member).get(address)).status_code == 404


async def _put(media: MediaStore, content: bytes) -> KeptFile:
    async def pieces() -> AsyncIterator[bytes]:
        yield content

    kept = await media.put(pieces(), tenant_id=UUID(int=1), extension="png")
    return KeptFile(kept.sha256, kept.size, kept.key, None)
