"""A process that takes pages apart for `pool`, one after another, and may be killed at any moment.

It inherits no environment, so no secret is near the HTML of strangers; it ends when its parent's pipe closes.
"""

from __future__ import annotations

import importlib
import logging
import os
import resource
import sys
import warnings
from typing import BinaryIO

import msgspec

from telegram_assistant.crawl.reading import SIZE, SIZES, Engine, Job

ENGINES = {
    "trafilatura": "telegram_assistant.crawl.extract",
    "crawl4ai": "telegram_assistant.crawl.crawl4ai_text",
}


def serve(engine: Engine, jobs: BinaryIO, answers: BinaryIO) -> None:
    """Answer until nobody asks any more. An exception ends the process: the parent tells why and starts another."""
    _send(answers, b"")
    while len(sizes := jobs.read(SIZES.size)) == SIZES.size:
        job_size, body_size = SIZES.unpack(sizes)
        job = msgspec.json.decode(jobs.read(job_size), type=Job)
        body = jobs.read(body_size)
        limit_processor(job.seconds)
        _send(answers, msgspec.json.encode(engine(job, body)))


def limit_processor(seconds: float) -> None:
    """So that an endless page ends even if our parent is gone."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    end = int(used.ru_utime + used.ru_stime + seconds) + 2
    resource.setrlimit(resource.RLIMIT_CPU, (end, resource.RLIM_INFINITY))


def limit_memory(megabytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (megabytes * 2**20, megabytes * 2**20))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def private_pipe() -> BinaryIO:
    """The answers' own way out: what libraries print must not get between them, so it goes to stderr."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers


def main() -> None:
    """`python -m telegram_assistant.crawl.worker ENGINE MEGABYTES`."""
    name, megabytes = sys.argv[1], int(sys.argv[2])
    answers = private_pipe()
    logging.disable(logging.CRITICAL)  # libraries complain about each odd page
    warnings.simplefilter("ignore")
    limit_memory(megabytes)
    engine: Engine = importlib.import_module(ENGINES[name]).open_engine()
    serve(engine, sys.stdin.buffer, answers)


def _send(answers: BinaryIO, content: bytes) -> None:
    answers.write(SIZE.pack(len(content)) + content)
    answers.flush()


if __name__ == "__main__":
    main()
