"""Servers that send too much, too slowly, in circles, or nothing that makes sense."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from typing import Any

import pytest

from telegram_assistant.errors import Retry, Skip

pytestmark = pytest.mark.integration

Internet = Any  # of conftest.py, which cannot be imported
KILOBYTE = 1024


async def endless(writer: asyncio.StreamWriter, piece: bytes) -> None:
    while True:  # until the client closes the connection
        writer.write(piece)
        await writer.drain()


async def test_a_body_without_end_is_cut_off(internet: Internet) -> None:
    async def answer(_asked: Any, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")
        await endless(writer, b"<p>more</p>" * 1000)

    await internet.site("big.test", page=answer)
    with pytest.raises(Skip, match="more than 262144 bytes came"):
        await internet.fetcher(wire_bytes=256 * KILOBYTE).get("http://big.test/page")


async def test_a_body_in_endless_chunks_is_cut_off(internet: Internet) -> None:
    async def answer(_asked: Any, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n")
        await endless(writer, b"5\r\nhello\r\n" * 1000)

    await internet.site("big.test", page=answer)
    with pytest.raises(Skip, match="bytes came"):
        await internet.fetcher(wire_bytes=256 * KILOBYTE).get("http://big.test/page")


async def test_a_declared_size_is_believed_when_it_is_too_large(internet: Internet) -> None:
    headers = [("Content-Length", str(10**12))]
    await internet.site("big.test", page=internet.response("<p>", headers=headers, length=False))
    with pytest.raises(Skip, match="larger than"):
        await internet.fetcher().get("http://big.test/page")


async def test_a_server_that_trickles_is_left(internet: Internet) -> None:
    async def answer(_asked: Any, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")
        while True:
            writer.write(b".")
            await writer.drain()
            await asyncio.sleep(0.01)  # slow loris: each byte in time, the page never

    await internet.site("slow.test", page=answer)
    with pytest.raises(Retry, match=r"did not deliver within 0\.3 s"):
        await internet.fetcher(total_seconds=0.3).get("http://slow.test/page")


async def test_headers_that_trickle_are_left(internet: Internet) -> None:
    async def answer(_asked: Any, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(b"X: y\r\n")
            await writer.drain()
            await asyncio.sleep(0.01)

    await internet.site("slow.test", page=answer)
    with pytest.raises(Retry, match="did not deliver"):
        await internet.fetcher(total_seconds=0.3).get("http://slow.test/page")


async def test_the_time_of_all_redirects_together_is_limited(internet: Internet) -> None:
    async def answer(_asked: Any, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.2)
        writer.write(internet.response(status=302, headers=[("Location", "/page")]))

    await internet.site("slow.test", page=answer)
    with pytest.raises(Retry, match=r"did not deliver within 0\.5 s"):
        await internet.fetcher(total_seconds=0.5).get("http://slow.test/page")


async def test_a_server_that_says_nothing_is_left(internet: Internet) -> None:
    async def answer(_asked: Any, _writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    await internet.site("silent.test", page=answer)
    with pytest.raises(Retry, match="did not deliver"):
        await internet.fetcher(total_seconds=0.2).get("http://silent.test/page")


@pytest.mark.parametrize("line", [b"X-Long: " + b"a" * 1000 + b"\r\n", b"X: y\r\n", b"X-Endless: "])
async def test_headers_without_end_are_cut_off(internet: Internet, line: bytes) -> None:
    async def answer(_asked: Any, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n")
        await endless(writer, line * 100)

    await internet.site("heads.test", page=answer)
    with pytest.raises(Skip, match="bytes came"):
        await internet.fetcher().get("http://heads.test/page")


async def test_long_headers_are_refused(internet: Internet) -> None:
    await internet.site("heads.test", page=internet.response("<p>x</p>", headers=[("X-Long", "a" * 40_000)]))
    with pytest.raises(Skip, match="bytes of headers"):
        await internet.fetcher().get("http://heads.test/page")


async def test_endless_interim_answers_are_cut_off(internet: Internet) -> None:
    async def answer(_asked: Any, writer: asyncio.StreamWriter) -> None:
        await endless(writer, b"HTTP/1.1 103 Early Hints\r\n\r\n" * 100)

    await internet.site("hints.test", page=answer)
    with pytest.raises(Skip, match="bytes came"):
        await internet.fetcher().get("http://hints.test/page")


async def test_redirects_in_a_circle_end(internet: Internet) -> None:
    site = await internet.site(
        "loop.test",
        a=internet.response(status=302, headers=[("Location", "/b")]),
        b=internet.response(status=302, headers=[("Location", "/a")]),
    )
    with pytest.raises(Skip, match="more than 5 redirects"):
        await internet.fetcher().get("http://loop.test/a")
    assert site.paths == ["/a", "/b"] * 3


async def test_redirects_are_followed_over_sites(internet: Internet) -> None:
    await internet.site("old.test", a=internet.response(status=301, headers=[("Location", "//new.test/b?c=1#d")]))
    await internet.site("new.test", b=internet.response("<p>here</p>"))
    fetched = await internet.fetcher().get("http://old.test/a")
    assert (str(fetched.url), fetched.body) == ("http://new.test/b?c=1", b"<p>here</p>")


@pytest.mark.parametrize(
    "encoding,bomb",
    [
        ("gzip", gzip.compress(bytes(30_000_000))),
        ("deflate", zlib.compress(bytes(30_000_000))),
    ],
)
async def test_a_bomb_does_not_go_off(internet: Internet, encoding: str, bomb: bytes) -> None:
    await internet.site("bomb.test", page=internet.response(bomb, headers=[("Content-Encoding", encoding)]))
    with pytest.raises(Skip, match="grows beyond 1000000 bytes"):
        await internet.fetcher(unpacked_bytes=1_000_000).get("http://bomb.test/page")


@pytest.mark.parametrize(
    "headers",
    [
        [("Content-Encoding", "gzip, gzip")],
        [("Content-Encoding", "gzip"), ("Content-Encoding", "gzip")],
        [("Content-Encoding", "br")],
        [("Content-Encoding", "zstd")],
    ],
)
async def test_odd_packing_is_refused(internet: Internet, headers: list[tuple[str, str]]) -> None:
    packed = gzip.compress(gzip.compress(bytes(1_000_000)))
    await internet.site("bomb.test", page=internet.response(packed, headers=headers))
    with pytest.raises(Skip, match="packed"):
        await internet.fetcher().get("http://bomb.test/page")


async def test_a_packed_page_is_unpacked(internet: Internet) -> None:
    body = internet.article().encode()
    site = await internet.site(
        "a.test", page=internet.response(gzip.compress(body), headers=[("Content-Encoding", "gzip")])
    )
    fetched = await internet.fetcher().get("http://a.test/page")
    assert fetched.body == body
    assert fetched.wire_bytes < len(body)
    assert site.asked[0].headers["accept-encoding"] == "gzip, deflate"


@pytest.mark.parametrize(
    "kind", ["application/pdf", "image/svg+xml", "application/octet-stream", "text/css", "video/mp4"]
)
async def test_only_pages_are_read(internet: Internet, kind: str) -> None:
    await internet.site("files.test", page=internet.response("x", kind=kind))
    with pytest.raises(Skip, match="is no page"):
        await internet.fetcher().get("http://files.test/page")


@pytest.mark.parametrize("kind", ["text/html", "Text/HTML; Charset=UTF-8", "application/xhtml+xml", "text/plain", ""])
async def test_pages_are_read(internet: Internet, kind: str) -> None:
    await internet.site("pages.test", page=internet.response("x", kind=kind))
    assert (await internet.fetcher().get("http://pages.test/page")).body == b"x"


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x00" * 100,
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nBad Header : x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 100\r\n\r\nhalf",
    ],
)
async def test_servers_that_speak_nonsense_are_tried_again_later(internet: Internet, answer: bytes) -> None:
    await internet.site("odd.test", page=answer)
    with pytest.raises(Retry, match=r"odd\.test"):
        await internet.fetcher().get("http://odd.test/page")


async def test_a_dead_server_is_tried_again_later(internet: Internet) -> None:
    internet.names["dead.test"] = [["93.184.216.200"]]
    with pytest.raises(Retry, match=r"dead\.test broke the connection"):
        await internet.fetcher().get("http://dead.test/page")


async def test_we_bring_nothing_and_keep_nothing(internet: Internet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    cookie = [("Set-Cookie", "id=7; Path=/")]
    site = await internet.site(
        "a.test",
        one=internet.response(status=302, headers=[("Location", "/two"), *cookie]),
        two=internet.response("<p>x</p>", headers=cookie),
    )
    fetcher = internet.fetcher()
    await fetcher.get("http://a.test/one")
    await fetcher.get("http://a.test/two")
    assert site.paths == ["/one", "/two", "/two"]
    for asked in site.asked:
        assert asked.headers["user-agent"] == "TelegramAssistant/test (+https://owner.test)"
        assert not {"cookie", "referer", "authorization", "origin"} & set(asked.headers)


async def test_every_request_passes_the_gate(internet: Internet) -> None:
    passed: list[str] = []

    async def gate(url: Any) -> None:
        passed.append(str(url))
        if url.host == "closed.test":
            raise Skip("not there")

    site = await internet.site(
        "a.test", one=internet.response(status=302, headers=[("Location", "http://closed.test/x")])
    )
    closed = await internet.site("closed.test", x=internet.response("<p>x</p>"))
    with pytest.raises(Skip, match="not there"):
        await internet.fetcher().get("http://a.test/one", gate=gate)
    assert passed == ["http://a.test/one", "http://closed.test/x"]
    assert (site.paths, closed.paths) == (["/one"], [])


async def test_other_statuses_come_back_without_their_body(internet: Internet) -> None:
    await internet.site("a.test", gone=internet.response("a long story", status=410))
    fetched = await internet.fetcher().get("http://a.test/gone")
    assert (fetched.status, fetched.body) == (410, b"")
