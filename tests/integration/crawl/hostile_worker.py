"""A page reader's process that does what the page says: the real loop, with an engine that misbehaves on demand."""

from __future__ import annotations

import os
import sys
import threading

from telegram_assistant.crawl.worker import Extracted, Job, work_of
from telegram_assistant.processes.serving import serve

GIGABYTE = 2**30


def engine(job: Job, body: bytes) -> Extracted:
    what = body.decode()
    match what:
        case "hang":
            threading.Event().wait()
        case "spin":
            while True:
                pass
        case "abort":
            os.abort()
        case "raise":
            raise RecursionError("too deep")
        case "exit":
            os._exit(3)
        case "memory":
            bytearray(2 * GIGABYTE)
        case "print":
            os.write(1, b"an advertisement\n" * 3)
            print("another")  # noqa: T201 - libraries do that
        case "huge":
            return Extracted(text="x" * (5 * 2**20))
        case _:
            pass
    return Extracted(title=str(os.getpid()), text=what, description="", site=job.url)


if __name__ == "__main__":
    if sys.argv[1:] == ["broken"]:
        raise ImportError("no module named x")
    serve(lambda: work_of(engine), megabytes=1024)
