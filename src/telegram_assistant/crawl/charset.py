"""The text in the bytes of a page: what the server says, then what the page says, then a look at the letters."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_DECLARED = re.compile(rb"<meta[^>]{0,300}?charset\s*=\s*[\"']?\s*([a-z0-9_:.-]{1,40})", re.IGNORECASE)
_PROLOG = re.compile(rb"^\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([a-z0-9_:.-]{1,40})", re.IGNORECASE)
_NAME = re.compile(r"[a-z0-9_:.-]{1,40}", re.IGNORECASE | re.ASCII)
_LOOKED_AT = 4096
_HIGH = bytes(range(0x80, 0x100))
_LETTERS = re.compile(rb"[A-Za-z\x80-\xff]")

# Python knows codecs that are no charsets (zip, hex, escapes) and some that hide markup (utf-7): only these are used.
_USED = frozenset(
    {"utf-8", "utf-16", "utf-16-le", "utf-16-be", "koi8-r", "koi8-u", "cp866", "mac-cyrillic", "gb18030", "big5"}
    | {"euc_jp", "shift_jis", "euc_kr", "cp932", "cp949", "cp874"}
    | {f"cp125{number}" for number in range(9)}
    | {f"iso8859-{number}" for number in range(2, 17)}
)
# What pages mean by these names.
_MEANT = {"ascii": "cp1252", "iso8859-1": "cp1252", "gb2312": "gb18030", "gbk": "gb18030", "utf-16": "utf-16-le"}


def decode(body: bytes, declared: str = "") -> str:
    """Never fails: the last resort shows U+FFFD where bytes made no sense."""
    first: str | None = None
    for name in _candidates(body, declared):
        text = body.decode(name, "replace")
        # A single broken byte must not turn a whole page into gibberish of another charset.
        if text.count("\ufffd") * 100 <= len(text):
            return text.removeprefix("\ufeff")
        first = first or name
    return body.decode(first or "utf-8", "replace").removeprefix("\ufeff")


def _candidates(body: bytes, declared: str) -> Iterator[str]:
    for mark, name in _BOMS:
        if body.startswith(mark):
            yield name
    start = body[:_LOOKED_AT]
    inside = _PROLOG.search(start) or _DECLARED.search(start)
    for label in (declared, inside[1].decode("ascii") if inside else ""):
        known = _known(label)
        # A page that could be searched for its charset as ASCII is not in UTF-16, whatever it says there.
        if known and not (known.startswith("utf-16") and label is not declared):
            yield known
    yield "utf-8"
    yield _guess(body)


def _known(label: str) -> str | None:
    if not _NAME.fullmatch(label):
        return None
    try:
        name = codecs.lookup(label).name
    except LookupError:
        return None
    name = _MEANT.get(name, name)
    return name if name in _USED else None


def _guess(body: bytes) -> str:
    """Cyrillic pages are mostly high bytes, and their small letters tell which of the two old charsets it is."""
    letters = len(_LETTERS.findall(body))
    high = len(body) - len(body.translate(None, _HIGH))
    if high * 3 < letters:
        return "cp1252"
    small_windows = len(body) - len(body.translate(None, bytes(range(0xE0, 0x100))))
    small_koi8 = len(body) - len(body.translate(None, bytes(range(0xC0, 0xE0))))
    return "cp1251" if small_windows >= small_koi8 else "koi8-r"
