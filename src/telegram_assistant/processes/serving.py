"""The child's side of a worker: one request after another until our parent closes its end, within limits.

A request has twelve bytes before it (its number, its length, the seconds it may take), an answer eight. What a request
does to native code, it does here.
"""

from __future__ import annotations

import os
import resource
import struct
import sys
from collections.abc import Callable
from typing import BinaryIO, TypeAlias

REQUEST = struct.Struct("!III")  # number, length, seconds
ANSWER = struct.Struct("!II")  # number, length; number 0: ready
Work: TypeAlias = Callable[[bytes], bytes]


def serve(open_work: Callable[[], Work], *, megabytes: int) -> None:
    """Answer until there are no more requests. What `work` raises ends the process: the parent tells why."""
    answers = _private_pipe()
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_DATA, megabytes * 2**20)  # what needs more fails in here, and not the machine
    work = open_work()
    _send(answers, 0, b"")
    requests = sys.stdin.buffer
    while len(header := requests.read(REQUEST.size)) == REQUEST.size:
        number, length, seconds = REQUEST.unpack(header)
        _limit_processor(seconds)
        _send(answers, number, work(requests.read(length)))


def _private_pipe() -> BinaryIO:
    """The answers' own way out: what libraries print must not get between them, so it goes to stderr."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers


def _send(answers: BinaryIO, number: int, content: bytes) -> None:
    answers.write(ANSWER.pack(number, len(content)) + content)
    answers.flush()


def _limit_processor(seconds: int) -> None:
    """So that endless work ends even if our parent is gone."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    end = int(used.ru_utime + used.ru_stime) + seconds * (os.cpu_count() or 1) + 2
    resource.setrlimit(resource.RLIMIT_CPU, (end, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def _limit(what: int, most: int) -> None:
    resource.setrlimit(what, (most, most))
