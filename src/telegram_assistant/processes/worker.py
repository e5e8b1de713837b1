"""Processes of ours, for work that would hold up the event loop, or that might end the process it runs in.

Each is started with no secret of ours, and never outlives us: its environment is made here and takes nothing from ours,
where the session of Telegram and the keys are; it is a new program and no fork, so nothing of our memory is in it
either. Ctrl-C is for us, who end it in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import math
import os
import signal
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping, Sequence
from tempfile import TemporaryFile
from typing import IO, Any

from telegram_assistant.errors import Retry
from telegram_assistant.log import get_logger
from telegram_assistant.metrics import WORKER_DEATHS
from telegram_assistant.processes.serving import ANSWER, REQUEST

START_SECONDS = 180.0
DYING_SECONDS = 5.0
GRACE = 3.0  # seconds to end by itself
MOST_SAID = 64 * 2**10  # bytes on stderr that are kept between two requests
TOLD = 4000  # bytes of them that go to the log

log = get_logger(__name__)


class Lost(Retry):
    """No answer, and the process is gone; the next request gets another one."""

    def __init__(self, message: str, *, reason: str, words: str = "") -> None:
        super().__init__(message, after=1.0)
        self.reason = reason  # not_started, too_slow, died, nonsense
        self.words = words  # its last line


class Worker:
    """A command that serves (serving.py): started at the first request and after its death; one request at a time.

    A process of its own and not a pool of `concurrent.futures`: that cannot end a job that takes too long. A caller who
    is cancelled takes the process along, because what it does may never end; `costly` ones live on.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        limit: float,
        largest: int = 8 * 2**20,
        costly: bool = False,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.limit = limit  # seconds for one request
        self.served = 0
        self._command = tuple(command)
        self._largest = largest  # bytes of an answer
        self._costly = costly
        self._env = env
        self._turn = asyncio.Lock()
        self._process: Process | None = None
        self._said: IO[bytes] | None = None  # its stderr: a file, for a pipe would have to be read all the time
        self._number = 0
        self._header: tuple[int, int] | None = None  # of the answer whose body is not read yet
        self._closed = False

    @property
    def pid(self) -> int | None:
        """None while it does not run."""
        running = self._process is not None and self._process.returncode is None
        return self._process.pid if running and self._process is not None else None

    async def start(self) -> None:
        """Start it before the first request, which then need not wait for its imports."""
        async with self._turn:
            await self._running()

    async def ask(self, request: bytes) -> bytes:
        """Its answer. Raises Lost when it died, took too long or writes nonsense."""
        async with self._turn:
            process = await self._running()
            try:
                async with asyncio.timeout(self.limit):
                    answer = await self._exchange(process, request)
            except TimeoutError as exc:
                raise await self._lost("too_slow", f"took longer than {self.limit:g} s and was ended") from exc
            except (EOFError, OSError) as exc:
                raise await self._lost("died", "died over this request") from exc
            except ValueError as exc:
                raise await self._lost("nonsense", f"answers nonsense: {exc}") from exc
            except asyncio.CancelledError:
                if not self._costly:
                    await self._end()
                raise
            self.served += 1
            if self._said is not None and os.fstat(self._said.fileno()).st_size > MOST_SAID:
                self._said.truncate(0)
            return answer

    async def close(self) -> None:
        """End it; at once if it is busy. Further requests are refused."""
        self._closed = True
        if self._turn.locked() and self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
        async with self._turn:
            if self._process is not None and self._process.stdin is not None:
                self._process.stdin.close()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._process.wait(), GRACE)
            await self._end()

    async def _running(self) -> Process:
        if self._closed:
            raise Retry(f"{self.name} is closed: the service is stopping")
        if self._process is None or self._process.returncode is not None:
            self._process = await self._started()
        return self._process

    async def _started(self) -> Process:
        await self._end()
        self._header = None
        self._said = TemporaryFile("a+b", buffering=0)  # noqa: SIM115 - closed with its process
        self._process = process = await start(self._command, env=self._env, stdin=PIPE, stdout=PIPE, stderr=self._said)
        ready = False
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._answer(process, 0)
            ready = True
        except (TimeoutError, EOFError, OSError, ValueError) as exc:
            raise await self._lost("not_started", "does not start") from exc
        finally:
            if not ready:
                await self._end()
        return process

    async def _exchange(self, process: Process, request: bytes) -> bytes:
        if process.stdin is None:
            raise EOFError
        self._number = self._number % 2**31 + 1
        process.stdin.writelines((REQUEST.pack(self._number, len(request), math.ceil(self.limit)), request))
        await process.stdin.drain()
        return await self._answer(process, self._number)

    async def _answer(self, process: Process, number: int) -> bytes:
        """The answer of that number; those that a cancelled caller left behind are passed over."""
        if process.stdout is None:
            raise EOFError
        while True:
            # It is kept, so that a caller cancelled between header and body leaves the next one a whole answer.
            self._header = self._header or ANSWER.unpack(await process.stdout.readexactly(ANSWER.size))
            found, length = self._header
            if length > self._largest:
                raise ValueError(f"{length} bytes")
            body = await process.stdout.readexactly(length)
            self._header = None
            if found == number:
                return body

    async def _lost(self, reason: str, what: str) -> Lost:
        """Let it die in peace: to signal the dead takes their status from asyncio."""
        process = self._process
        if process is not None and reason in {"died", "not_started"}:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), DYING_SECONDS)
        said = await self._end()
        code = None if process is None else process.returncode
        words = said.splitlines()[-1][:200] if said else f"exit status {code}"
        WORKER_DEATHS.labels(self.name, reason).inc()
        log.warning("a worker process was lost", worker=self.name, reason=reason, exit_code=code, said=said)
        ending = f" ({words})" if reason in {"died", "not_started"} else ""
        return Lost(f"{self.name} {what}{ending}", reason=reason, words=words)

    async def _end(self) -> str:
        """Kill it if need be, and return the end of what it said on stderr."""
        process, self._process = self._process, None
        if process is not None:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
            await process.communicate()  # only after the pipes are drained does asyncio let go of them
        file, self._said = self._said, None
        if file is None:
            return ""
        with file:
            start_at = max(0, os.fstat(file.fileno()).st_size - TOLD)
            return os.pread(file.fileno(), TOLD, start_at).decode("utf-8", "replace").strip()


_ENVIRONMENT = {
    "LANG": "C.UTF-8",
    "PATH": os.defpath,
    # More threads in a child only heat the cores that we need.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
_PR_SET_PDEATHSIG = 1


def our_module(name: str, *arguments: str) -> tuple[str, ...]:
    """The command of a module of ours. -P: nothing is imported from the folder we happen to be in."""
    return (sys.executable, "-P", "-m", name, *arguments)


async def start(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    user: int | None = None,
    end_with: signal.Signals = signal.SIGKILL,
    **pipes: Any,
) -> asyncio.subprocess.Process:
    """`env` is added to the few variables that each child gets; `pipes` are asyncio's own, and `cwd`."""
    program, *arguments = command
    return await asyncio.create_subprocess_exec(program, *arguments, **_manner(env, user, end_with), **pipes)


def start_in_thread(command: Sequence[str], **pipes: Any) -> subprocess.Popen[bytes]:
    """The same for a thread, which must live as long as the child."""
    return subprocess.Popen(command, **_manner(None, None, signal.SIGKILL), **pipes)  # noqa: S603 - our own command


def _manner(env: Mapping[str, str] | None, user: int | None, end_with: signal.Signals) -> dict[str, Any]:
    return {
        "env": {**_ENVIRONMENT, **(env or {})},
        "start_new_session": True,
        "preexec_fn": _die_with_parent(end_with),
        **as_user(user),
    }


def as_user(user: int | None) -> dict[str, Any]:
    return {} if user is None else {"user": user, "group": user, "extra_groups": []}


def _die_with_parent(with_signal: signal.Signals) -> Callable[[], None] | None:
    """Ask Linux to signal the child when we are gone, even by kill -9. Elsewhere its closed stdin ends it, if it reads
    that, and the next start finds what is left."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl  # looked up before the fork: only the call itself happens in the child
    parent = os.getpid()

    def set_signal() -> None:
        prctl(_PR_SET_PDEATHSIG, with_signal)
        if os.getppid() != parent:  # we died before the request was in place
            os.kill(os.getpid(), signal.SIGKILL)

    return set_signal


def start_anew() -> None:
    """This program from its beginning: the same process and arguments. All that was open must be closed."""
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - what runs already
