"""What goes to the vision worker and what comes back."""

from __future__ import annotations

import msgspec

from telegram_assistant.ai.ocr import TrainedData
from telegram_assistant.domain.pictures import Fingerprint
from telegram_assistant.domain.understanding import Seen


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
