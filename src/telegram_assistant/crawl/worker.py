"""A process that takes pages apart for `pool`, one after another, and may be killed at any moment.

`python -m telegram_assistant.crawl.worker ENGINE MEGABYTES`.
"""

from __future__ import annotations

import importlib
import logging
import sys
import warnings

import msgspec

from telegram_assistant.crawl.reading import Engine, Job
from telegram_assistant.processes.serving import Work, serve

ENGINES = {
    "trafilatura": "telegram_assistant.crawl.extract",
    "crawl4ai": "telegram_assistant.crawl.crawl4ai_text",
}


def work_of(engine: Engine) -> Work:
    decoder = msgspec.msgpack.Decoder(tuple[Job, bytes])
    return lambda request: msgspec.msgpack.encode(engine(*decoder.decode(request)))


def open_engine() -> Work:
    logging.disable(logging.CRITICAL)  # libraries complain about each odd page
    warnings.simplefilter("ignore")
    return work_of(importlib.import_module(ENGINES[sys.argv[1]]).open_engine())


if __name__ == "__main__":
    serve(open_engine, megabytes=int(sys.argv[2]))
