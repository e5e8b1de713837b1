"""The describer that needs no account: OCR, NSFW score, kind, colours and fingerprint, measured on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import msgspec

from telegram_assistant.ai.vision.ocr import WANTED, TrainedData
from telegram_assistant.domain.models import Describer, Identity, Picture, Seen, Usage
from telegram_assistant.domain.pictures import Fingerprint, Known, Verdict, sharing
from telegram_assistant.errors import Fatal, Retry, Skip
from telegram_assistant.processes.worker import Worker, our_module

RULES = "pictures-1"  # of the measures and of domain.pictures; another number makes other results


class LocalVision:
    """A Describer that says only what can be measured: no description, objects or scene.

    `data` comes from `ocr.find_trained_data`; without it nothing is read, and `missing` says so.
    `limit` ends a worker that takes longer over one picture; `read_limit` gives up reading it before that.
    """

    def __init__(
        self, data: TrainedData | None, *, nsfw: bool = True, limit: float = 60.0, read_limit: float = 20.0
    ) -> None:
        self._data = data
        self._nsfw = nsfw
        self._read_limit = read_limit
        self._worker = Worker("vision_worker", our_module("telegram_assistant.ai.vision.worker"), limit=limit)
        # Languages belong to the model's name: where trained data is added later, results are made anew.
        parts = [RULES, *sorted(self._data.languages if self._data else ()), *(["nsfw"] if nsfw else [])]
        self._identity = Identity("local", "+".join(parts))

    @property
    def identity(self) -> Identity:
        return self._identity

    @property
    def missing(self) -> tuple[str, ...]:
        """A sentence for health about each thing that is off."""
        absent = [language for language in WANTED if self._data is None or language not in self._data.languages]
        if not absent:
            return ()
        state = "text on pictures is not read" if self._data is None else f"{', '.join(absent)} text is not read"
        files = ", ".join(f"{language}.traineddata" for language in absent)
        return (f"{state}: no {files} (run scripts/tessdata, or set TESSDATA_PREFIX to a folder that has them)",)

    def status(self) -> dict[str, Any]:
        """For health."""
        return {
            "model": self._identity.model,
            "ocr": list(self._data.languages) if self._data else [],
            "tessdata": self._data.folder if self._data else None,
            "worker_pid": self._worker.pid,
            "missing": list(self.missing),
        }

    async def describe(self, picture: Picture) -> Seen:
        """Kind, labels, text, NSFW score and colours. Raises Skip for what is no picture, Retry if the worker died."""
        report = await self._ask(picture, describe=True)
        if report.seen is None:
            raise Retry("the vision worker gave no result")
        return report.seen

    async def fingerprint(self, picture: Picture) -> Fingerprint:
        """The perceptual hash and its companions: no model is asked, so it is quick."""
        report = await self._ask(picture, describe=False)
        if report.fingerprint is None:
            raise Retry("the vision worker gave no fingerprint")
        return report.fingerprint

    async def start(self) -> None:
        """Optional: the first picture is quicker then."""
        await self._worker.start()

    async def close(self) -> None:
        """End the worker."""
        await self._worker.close()

    async def _ask(self, picture: Picture, *, describe: bool) -> Report:
        job = Job(
            content=picture.content,
            model=self._identity.model,
            describe=describe,
            data=self._data,
            nsfw=self._nsfw,
            read_limit=self._read_limit,
        )
        answer = await self._worker.ask(msgspec.msgpack.encode(job))
        try:
            report = msgspec.msgpack.decode(answer, type=Report)
        except msgspec.MsgspecError as exc:
            raise Retry(f"the vision worker gave an answer that is none: {exc}") from exc
        if report.skip is not None:
            raise Skip(report.skip)
        if report.fatal is not None:
            raise Fatal(report.fatal)
        return report


class Job(msgspec.Struct, frozen=True):
    """A picture, and what is wanted of it."""

    content: bytes
    model: str
    describe: bool  # else only the fingerprint
    data: TrainedData | None
    nsfw: bool
    read_limit: float


class Report(msgspec.Struct, frozen=True):
    """The answer: a fingerprint and perhaps a result, or one of the two refusals."""

    fingerprint: Fingerprint | None = None
    seen: Seen | None = None
    skip: str | None = None
    fatal: str | None = None


class Lookalikes(Protocol):
    """Results by fingerprint: those of `identity` that share one of `domain.pictures.bands`, nearest first, a few."""

    async def near(self, fingerprint: Fingerprint, identity: Identity) -> Sequence[Known]: ...


async def known_result(
    picture: Picture, mine: Fingerprint, known: Lookalikes, identity: Identity, *, reader: Describer | None = None
) -> Seen | None:
    """The result of a near-duplicate, if it holds for this picture too; it costs no tokens.

    `reader` is the local describer, where it is cheaper than that of `identity`: it compares what is written on both.
    """
    unread: list[Known] = []
    for candidate in await known.near(mine, identity):
        verdict = sharing(mine, candidate.fingerprint, candidate.seen)
        if verdict is Verdict.SHARE:
            return replace(candidate.seen, usage=Usage())
        if verdict is Verdict.READ_FIRST:
            unread.append(candidate)
    if not unread or reader is None:
        return None
    ocr = (await reader.describe(picture)).ocr
    for candidate in unread:
        if ocr and sharing(mine, candidate.fingerprint, candidate.seen, ocr.text) is Verdict.SHARE:
            return replace(candidate.seen, usage=Usage())
    return None
