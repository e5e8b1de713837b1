"""The process that looks at pictures: what a stranger's file does to native code, it does here."""

from __future__ import annotations

from functools import cache
from time import perf_counter

import msgspec

from telegram_assistant.ai.decode import Decoded, decode
from telegram_assistant.ai.nsfw import NsfwModel
from telegram_assistant.ai.ocr import Reader, Reading, TrainedData
from telegram_assistant.ai.pixels import dominant_colours, fingerprint, measure
from telegram_assistant.ai.vision_jobs import Job, Report
from telegram_assistant.domain.picture_kinds import classify, labels
from telegram_assistant.domain.understanding import Classification, Seen, Usage
from telegram_assistant.errors import Fatal, Skip
from telegram_assistant.processes.serving import serve

MEGABYTES = 2048
UNREAD = "unread"  # the label of a picture that took too long to read


def answer(request: bytes) -> bytes:
    return msgspec.msgpack.encode(work(msgspec.msgpack.decode(request, type=Job)))


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
    serve(lambda: answer, megabytes=MEGABYTES)
