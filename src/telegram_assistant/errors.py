"""Every error of ours says what is to be done about it.

AssistantError
├── Retry     try the same again, after a while
├── Skip      leave this one out, and store why
├── Reject    it can never work: to the dead letters, with the reason
└── Fatal     this process cannot go on; the message tells a person what to do
"""

from __future__ import annotations

import re

_PIPELINE = re.compile(r"Command # \d+ \(.*\) of pipeline caused error: \(?[\"']?(.+?)[\"']?,?\)?$", re.DOTALL)
_DRIVER = re.compile(r"^\([\w.]+\) (?:<class '[\w.]+'>: )?")  # what SQLAlchemy puts before the words of PostgreSQL
_AFTER = re.compile(r"\s*(?:\[SQL: |\[parameters: |\(Background on this error).*", re.DOTALL)  # and behind them
_OF_POSTGRES = {"asyncpg", "sqlalchemy"}
LONGEST = 300


class AssistantError(Exception):
    """The root of our errors; raise one of its four children."""


class Retry(AssistantError):
    """Try the same again after `after` seconds (None: the caller's own backoff decides).

    A server that names a time was only busy, and may be asked as often as it takes; unless it `failed` all the same,
    like a foreign server that says each time when to come again. `own`: the cause may be this very input, so that
    others, each alone, may succeed.
    """

    def __init__(self, message: str, *, after: float | None = None, failed: bool = False, own: bool = False) -> None:
        super().__init__(message)
        self.after = after
        self.failed = failed or after is None
        self.own = own


class Skip(AssistantError):
    """Leave this one out; the message is the reason that is stored."""


class Reject(AssistantError):
    """It can never work: it goes to the dead letters with this reason."""


class Fatal(AssistantError):
    """The process cannot go on; the message is one line that tells a person what to do."""


def in_words(error: BaseException | str) -> str:
    """What went wrong, in one line for people: without the commands, statements and data that libraries quote."""
    words = str(error)
    if found := _PIPELINE.search(words):
        words = words[: found.start()] + found[1]
    words = " ".join(_AFTER.sub("", _DRIVER.sub("", words)).split())[:LONGEST]
    if isinstance(error, str | AssistantError):
        return words or type(error).__name__
    kind = type(error)
    whose = "PostgreSQL" if kind.__module__.partition(".")[0] in _OF_POSTGRES else kind.__name__
    return f"{whose}: {words}" if words else f"{whose}: {kind.__name__}" if whose != kind.__name__ else whose
