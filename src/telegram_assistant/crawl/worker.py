"""A process that takes pages apart for `pool`, one after another, and may be killed at any moment.

`python -m telegram_assistant.crawl.worker ENGINE MEGABYTES`.
"""

from __future__ import annotations

import logging
import sys
import warnings

import msgspec

from telegram_assistant.crawl.reading import Engine, Job
from telegram_assistant.processes.serving import Work, serve


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
