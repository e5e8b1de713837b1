"""The worker process: loads the local models, then answers calls on stdin until it is closed.

`python -m telegram_assistant.ai.local_worker [TOPICS_FILE]`. It ends with whoever started it, however that one ended.
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import BinaryIO

import msgspec

from telegram_assistant.ai.local_engine import Engine
from telegram_assistant.ai.local_requests import HEADER, AnswerFound, Call, Failure, Outcome, TagsFound, Vectors, framed
from telegram_assistant.ai.taxonomy import load_taxonomy


def serve(engine: Engine, calls: BinaryIO, outcomes: BinaryIO) -> None:
    """Answer until the calls end."""
    decoder = msgspec.msgpack.Decoder(Call)
    while len(header := calls.read(HEADER)) == HEADER:
        call = decoder.decode(calls.read(int.from_bytes(header, "big")))
        outcomes.write(framed(Outcome(call.number, _result(engine, call))))
        outcomes.flush()


def _result(engine: Engine, call: Call) -> Vectors | TagsFound | AnswerFound | Failure:
    try:
        return engine.handle(call.request)
    except Exception as exc:  # noqa: BLE001 - whatever a text does to a model is that text's failure, told to the caller
        return Failure(f"{type(exc).__name__}: {exc}", traceback.format_exc())


def main() -> None:
    # Answers have a channel of their own, so that a library that prints cannot break them.
    outcomes = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    engine = Engine(load_taxonomy(Path(sys.argv[1]) if len(sys.argv) > 1 else None))
    outcomes.write(framed(Outcome(0, Vectors([]))))  # ready
    outcomes.flush()
    serve(engine, sys.stdin.buffer, outcomes)


if __name__ == "__main__":
    main()
