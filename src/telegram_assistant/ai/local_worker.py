"""The worker process: loads the local models, then answers calls.

`python -m telegram_assistant.ai.local_worker [TOPICS_FILE]`.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

import msgspec

from telegram_assistant.ai.local_engine import Engine
from telegram_assistant.ai.local_requests import AnswerFound, Call, Failure, Outcome, TagsFound, Vectors
from telegram_assistant.language.taxonomy import load_taxonomy
from telegram_assistant.processes.serving import Work, serve

MEGABYTES = 4096


def open_models() -> Work:
    engine = Engine(load_taxonomy(Path(sys.argv[1]) if len(sys.argv) > 1 else None))
    decoder = msgspec.msgpack.Decoder(Call)
    return lambda request: msgspec.msgpack.encode(Outcome(_result(engine, decoder.decode(request))))


def _result(engine: Engine, call: Call) -> Vectors | TagsFound | AnswerFound | Failure:
    try:
        return engine.handle(call.request)
    except Exception as exc:  # noqa: BLE001 - whatever a text does to a model is that text's failure, told to the caller
        return Failure(f"{type(exc).__name__}: {exc}", traceback.format_exc())


if __name__ == "__main__":
    serve(open_models, megabytes=MEGABYTES)
