"""The process that looks at pictures: what a stranger's file does to native code, it does here.

Jobs come in on stdin and answers leave on stdout, each as four bytes of length and MessagePack. The end of stdin, which
is also what a killed parent leaves behind, ends it.
"""

from __future__ import annotations

import os
import resource
import sys
from functools import cache
from time import perf_counter
from typing import BinaryIO

import msgspec

from telegram_assistant.ai.decode import Decoded, decode
from telegram_assistant.ai.nsfw import NsfwModel
from telegram_assistant.ai.ocr import Reader, Reading, TrainedData
from telegram_assistant.ai.pixels import dominant_colours, fingerprint, measure
from telegram_assistant.ai.vision_jobs import Job, Report
from telegram_assistant.domain.picture_kinds import classify, labels
from telegram_assistant.domain.understanding import Classification, Seen, Usage
from telegram_assistant.errors import Fatal, Skip

MOST_MEMORY = 2 * 2**30  # bytes of data; what needs more fails in here, and not the machine
UNREAD = "unread"  # the label of a picture that took too long to read


def main() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever a library prints must not mix with the answers
    serve(sys.stdin.buffer, answers)


def serve(jobs: BinaryIO, answers: BinaryIO) -> None:
    """One job after the other, until there are no more."""
    while len(header := jobs.read(4)) == 4:
        body = jobs.read(int.from_bytes(header, "big"))
        answer = msgspec.msgpack.encode(work(msgspec.msgpack.decode(body, type=Job)))
        answers.write(len(answer).to_bytes(4, "big") + answer)
        answers.flush()


def work(job: Job) -> Report:
    try:
        picture = decode(job.content)
        seen = _look(picture, job) if job.describe else None
        return Report(fingerprint=fingerprint(picture), seen=seen)
    except Skip as exc:
        return Report(skip=str(exc))
    except MemoryError:
        return Report(skip="the picture needs more memory than it may have")
    except Fatal as exc:
        return Report(fatal=str(exc))


def _look(picture: Decoded, job: Job) -> Seen:
    started = perf_counter()
    reading = _reader(job.data, job.read_limit).read(picture.image) if job.data else Reading(None, None)
    score = _nsfw().score(picture.image) if job.nsfw else None
    features = measure(picture, reading.words)
    kind = classify(features)
    colours = dominant_colours(picture.image)
    found = labels(features, kind, colours, score)
    return Seen(
        classification=kind,
        is_meme=kind is Classification.MEME,
        labels=(*found, UNREAD) if job.data and reading.ocr is None else found,
        ocr=reading.ocr,
        nsfw_score=score,
        dominant_colors=colours,
        provider="local",
        model=job.model,
        usage=Usage(latency_ms=round((perf_counter() - started) * 1000, 1)),
    )


@cache
def _reader(data: TrainedData, limit: float) -> Reader:
    return Reader(data, limit=limit)


@cache
def _nsfw() -> NsfwModel:
    return NsfwModel()


if __name__ == "__main__":
    main()
