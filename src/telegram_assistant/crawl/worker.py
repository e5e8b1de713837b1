"""A process that takes pages apart for `pool`, one after another, and may be killed at any moment.

`python -m telegram_assistant.crawl.worker ENGINE MEGABYTES`.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from telegram_assistant.processes.serving import Work, serve

LONGEST_ANSWER = 4 * 2**20


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A page to take apart; its body comes beside it."""

    url: str
    kind: str  # media type
    charset: str  # as the server says; may be empty or wrong
    longest: int  # characters of text that are kept


class Extracted(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to read on a page; clean, and of limited length."""

    title: str = ""
    text: str = ""
    description: str = ""
    language: str = ""
    site: str = ""
    published: str = ""
    canonical: str = ""  # what the page says it is called, unchecked


Engine: TypeAlias = Callable[[Job, bytes], Extracted]


def work_of(engine: Engine) -> Work:
    decoder = msgspec.msgpack.Decoder(tuple[Job, bytes])
    return lambda request: msgspec.msgpack.encode(engine(*decoder.decode(request)))


def open_engine() -> Work:
    logging.disable(logging.CRITICAL)  # libraries complain about each odd page
    warnings.simplefilter("ignore")
    from telegram_assistant.crawl import extract  # noqa: PLC0415 - heavy, and it complains while it is imported

    engines = {"trafilatura": extract.open_trafilatura, "crawl4ai": extract.open_crawl4ai}
    return work_of(engines[sys.argv[1]]())


if __name__ == "__main__":
    serve(open_engine, megabytes=int(sys.argv[2]))
