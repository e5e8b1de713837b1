"""Bodies come out as they were, and bombs do not go off."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Callable

import pytest

from telegram_assistant.crawl.fetcher import unpacker
from telegram_assistant.errors import Retry, Skip

pytestmark = pytest.mark.unit

TEXT = "Погода завтра будет хорошей. ".encode() * 200
LIMIT = 100_000


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize(
    "encoding,body",
    [
        ("", TEXT),
        ("identity", TEXT),
        ("gzip", gzip.compress(TEXT)),
        ("X-GZIP", gzip.compress(TEXT)),
        ("identity, gzip", gzip.compress(TEXT)),
        ("deflate", zlib.compress(TEXT)),
        ("deflate", raw_deflate(TEXT)),
        ("gzip", gzip.compress(TEXT) + b"trailing rubbish"),
    ],
)
@pytest.mark.parametrize("step", [1, 7, 100_000])
def test_a_body_comes_out_whole_whatever_its_pieces(encoding: str, body: bytes, step: int) -> None:
    unpack = unpacker(encoding, LIMIT)
    out = b"".join(unpack.feed(body[at : at + step]) for at in range(0, len(body), step))
    unpack.finish()
    assert out == TEXT


@pytest.mark.parametrize(
    "encoding,pack", [("gzip", gzip.compress), ("deflate", zlib.compress), ("deflate", raw_deflate)]
)
def test_a_bomb_is_refused_before_it_takes_memory(encoding: str, pack: Callable[[bytes], bytes]) -> None:
    bomb = pack(bytes(50_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(Skip, match="grows beyond 100000 bytes"):
            unpacker(encoding, LIMIT).feed(bomb)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_the_limit_is_exact() -> None:
    exact = unpacker("gzip", LIMIT)
    assert len(exact.feed(gzip.compress(bytes(LIMIT)))) == LIMIT
    exact.finish()
    with pytest.raises(Skip):
        unpacker("gzip", LIMIT).feed(gzip.compress(bytes(LIMIT + 1)))
    assert unpacker("", LIMIT).feed(bytes(LIMIT)) == bytes(LIMIT)
    with pytest.raises(Skip, match="larger than"):
        unpacker("", LIMIT).feed(bytes(LIMIT + 1))


@pytest.mark.parametrize("encoding", ["gzip, gzip", "gzip, deflate", "gzip,gzip,gzip", "br, gzip"])
def test_packed_twice_is_not_read(encoding: str) -> None:
    with pytest.raises(Skip, match="times over"):
        unpacker(encoding, LIMIT)


@pytest.mark.parametrize("encoding", ["br", "zstd", "compress", "../../etc"])
def test_what_was_not_asked_for_is_not_read(encoding: str) -> None:
    with pytest.raises(Skip, match="not asked for"):
        unpacker(encoding, LIMIT)


def test_rubbish_is_skipped_and_half_a_page_is_tried_again() -> None:
    with pytest.raises(Skip, match="not packed properly"):
        unpacker("gzip", LIMIT).feed(b"<html>not packed at all</html>")
    half = unpacker("gzip", LIMIT)
    half.feed(gzip.compress(TEXT)[:50])
    with pytest.raises(Retry, match="broke off"):
        half.finish()
