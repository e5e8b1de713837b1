"""Bytes become the text that was meant, and never anything else than text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telegram_assistant.crawl.extract import decode

pytestmark = pytest.mark.unit

RUSSIAN = "Российские учёные представили новую модель погоды на неделю вперёд"


def page(text: str, charset: str = "") -> str:
    meta = f'<meta http-equiv="Content-Type" content="text/html; charset={charset}">' if charset else ""
    return f"<html><head>{meta}<title>x</title></head><body>{text}</body></html>"


@pytest.mark.parametrize("charset", ["utf-8", "windows-1251", "koi8-r", "cp866", "utf-16-le", "iso-8859-5"])
def test_the_server_names_the_charset(charset: str) -> None:
    assert decode(page(RUSSIAN).encode(charset), charset) == page(RUSSIAN)


@pytest.mark.parametrize("charset", ["utf-8", "windows-1251", "koi8-r"])
def test_the_page_names_the_charset(charset: str) -> None:
    text = page(RUSSIAN, charset)
    assert decode(text.encode(charset)) == text


def test_a_prolog_names_the_charset() -> None:
    text = f'<?xml version="1.0" encoding="windows-1251"?>{page(RUSSIAN)}'
    assert decode(text.encode("windows-1251")) == text


@pytest.mark.parametrize("charset", ["utf-8", "windows-1251", "koi8-r"])
def test_nobody_names_the_charset(charset: str) -> None:
    assert decode((RUSSIAN * 20).encode(charset)) == RUSSIAN * 20


def test_western_text_that_nobody_named() -> None:
    text = "Les élèves sont déjà arrivés à l'école, où ils mangent."
    assert decode(text.encode("cp1252")) == text


def test_a_wrong_server_is_corrected_by_the_page() -> None:
    text = page(RUSSIAN * 10, "windows-1251")
    assert decode(text.encode("windows-1251"), "utf-8") == text


def test_one_broken_byte_does_not_spoil_a_page() -> None:
    body = (RUSSIAN * 20).encode() + b"\xff" + RUSSIAN.encode()
    assert decode(body, "utf-8") == RUSSIAN * 20 + "\ufffd" + RUSSIAN


@pytest.mark.parametrize(
    "mark,charset", [(b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")]
)
def test_a_byte_order_mark_decides(mark: bytes, charset: str) -> None:
    assert decode(mark + RUSSIAN.encode(charset), "windows-1251") == RUSSIAN


@pytest.mark.parametrize(
    "name",
    ["utf-7", "zlib", "hex", "rot13", "unicode_escape", "idna", "punycode", "undefined", "mbcs", "a" * 5000, "\0"],
)
def test_codecs_that_are_no_charsets_are_not_used(name: str) -> None:
    text = page("+ADw-script+AD4- \\u003cscript\\u003e")
    assert decode(text.encode(), name) == text


def test_chinese_and_japanese() -> None:
    assert decode(page("科学家发布新模型", "gb2312").encode("gb18030")) == page("科学家发布新模型", "gb2312")
    assert decode("天気予報の新しいモデル".encode("shift_jis"), "Shift_JIS") == "天気予報の新しいモデル"


@given(st.binary(max_size=300), st.text(max_size=20))
def test_it_never_fails(body: bytes, name: str) -> None:
    assert isinstance(decode(body, name), str)
