"""Runs of periodic jobs: one row for a job and a time it was due, so that nothing is done twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from telegram_assistant.domain.text import clean_text
from telegram_assistant.stores.postgres.database import Store

LONGEST_ERROR = 1_000
ENDED = "the process that ran it ended before it was done"

_COLUMNS = "job, scheduled_for, outcome, attempts, started_at, ended_at, runner, note, error"
_CLAIM = """
INSERT INTO job_runs AS r (job, scheduled_for, outcome, attempts, started_at, runner)
VALUES (:job, :slot, 'running', 1, :now, :runner)
ON CONFLICT (job, scheduled_for) DO UPDATE SET outcome = 'running', attempts = r.attempts + 1,
  started_at = excluded.started_at, ended_at = NULL, runner = excluded.runner, error = ''
WHERE r.outcome IN ('asked', 'failed') AND r.attempts < :most
RETURNING attempts
"""
_END = """
UPDATE job_runs SET outcome = :outcome, ended_at = :now, note = :note, error = :error
WHERE job = :job AND scheduled_for = :slot AND runner = :runner AND outcome = 'running'
"""


class Outcome(StrEnum):
    """How far a run is."""

    ASKED = "asked"  # a person wants it now
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Run:
    """One time that a job was due."""

    job: str
    scheduled_for: datetime
    outcome: Outcome
    attempts: int
    started_at: datetime | None
    ended_at: datetime | None
    runner: str
    note: str
    error: str

    @property
    def seconds(self) -> float | None:
        if self.started_at is None or self.ended_at is None:
            return None
        return (self.ended_at - self.started_at).total_seconds()


class JobRuns(Store):
    """The table `job_runs`; it speaks of all tenants, and is for the operator."""

    async def claim(self, job: str, slot: datetime, *, now: datetime, runner: str, most: int) -> int | None:
        """Begin the run of this time, or begin it again after it failed: which attempt it is. None: it is not ours."""
        values = {"job": job, "slot": slot, "now": now, "runner": runner, "most": most}
        attempt: int | None = await self._value(_CLAIM, values)
        return attempt

    async def end(
        self, job: str, slot: datetime, *, now: datetime, runner: str, note: str = "", error: str | None = None
    ) -> None:
        """Without an error it went well."""
        values = {
            "job": job,
            "slot": slot,
            "now": now,
            "runner": runner,
            "outcome": (Outcome.DONE if error is None else Outcome.FAILED).value,
            "note": clean_text(note)[:LONGEST_ERROR],
            "error": clean_text(error or "")[:LONGEST_ERROR],
        }
        await self._run(_END, values)

    async def take_over(self, *, now: datetime, but: Sequence[str]) -> int:
        """For the only process that may run jobs: other runs that seem to go on have died."""
        statement = (
            "UPDATE job_runs SET outcome = 'failed', ended_at = :now, error = :error"
            " WHERE outcome = 'running' AND NOT job = ANY(:but)"
        )
        return await self._run(statement, {"now": now, "error": ENDED, "but": list(but)})

    async def ask(self, job: str, now: datetime) -> None:
        """Have it run as soon as a process can."""
        statement = "INSERT INTO job_runs (job, scheduled_for) VALUES (:job, :now) ON CONFLICT DO NOTHING"
        await self._run(statement, {"job": job, "now": now})

    async def asked(self) -> list[tuple[str, datetime]]:
        statement = "SELECT job, scheduled_for FROM job_runs WHERE outcome = 'asked' ORDER BY scheduled_for"
        return [(row.job, row.scheduled_for) for row in await self._rows(statement)]

    async def get(self, job: str, slot: datetime) -> Run | None:
        statement = f"SELECT {_COLUMNS} FROM job_runs WHERE job = :job AND scheduled_for = :slot"
        return await self._first(Run, statement, {"job": job, "slot": slot})

    async def latest(self) -> dict[str, Run]:
        """The newest run of each job."""
        statement = f"SELECT DISTINCT ON (job) {_COLUMNS} FROM job_runs ORDER BY job, scheduled_for DESC"
        return {run.job: run for run in await self._all(Run, statement)}

    async def last_done(self) -> dict[str, datetime]:
        """When each job last ended well."""
        statement = "SELECT job, max(ended_at) AS at FROM job_runs WHERE outcome = 'done' GROUP BY job"
        return {row.job: row.at for row in await self._rows(statement)}

    async def page(self, job: str, *, limit: int, before: datetime | None = None) -> list[Run]:
        """The newest first."""
        older = "" if before is None else " AND scheduled_for < :before"
        statement = f"SELECT {_COLUMNS} FROM job_runs WHERE job = :job{older} ORDER BY scheduled_for DESC LIMIT :limit"
        values = {"job": job, "limit": limit} | ({} if before is None else {"before": before})
        return await self._all(Run, statement, values)

    async def prune(self, before: datetime) -> int:
        statement = "DELETE FROM job_runs WHERE scheduled_for < :before AND outcome IN ('done', 'failed')"
        return await self._run(statement, {"before": before})
