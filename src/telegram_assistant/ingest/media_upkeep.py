"""Files that vanished from the media store are found by turns, and fetched from Telegram again (G10).

The store carries a mark that PostgreSQL knows too. Without it the store was emptied or exchanged, or a disk is not
mounted: that is told at once, and only after some minutes everything is looked for and fetched. A process with a folder
of its own, while another keeps the files elsewhere, says so and touches nothing.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import msgspec

from telegram_assistant.bus.supervisor import Task
from telegram_assistant.log import get_logger
from telegram_assistant.metrics import ENGINE_LOSSES, FILES_LOST
from telegram_assistant.stores.media import MediaStore, MediaStoreError
from telegram_assistant.stores.postgres.media import Evictions
from telegram_assistant.stores.postgres.upkeep import Turn, Upkeep

MEDIA = "media"
BATCH = 50
EVERY = timedelta(seconds=15)
WAKE = 5.0  # seconds between two looks whether it is our turn
BREATH = 0.2  # between two turns of a pass that hurries
PATIENCE = timedelta(minutes=10)  # for a disk that somebody may mount again
ABSENT = timedelta(minutes=2)  # without a sign of who keeps the files
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)

log = get_logger(__name__)


class FilesState(msgspec.Struct, frozen=True):
    """Which store it should be, who keeps it, and how far its files were looked for."""

    mark: str = ""
    place: str = ""
    seen_at: datetime = LONG_AGO
    missed_since: datetime | None = None  # the mark is not there
    after: str = ""
    examined: int = 0
    lost: int = 0
    fetched: int = 0  # of those: on their way again
    hurry: bool = False


@dataclass
class MediaUpkeep:
    """One per ingest process; they take turns."""

    upkeep: Upkeep
    files: Evictions
    store: MediaStore
    place: str
    refused: str = ""

    async def run(self, task: Task) -> None:
        """A supervised job."""
        task.ready()
        while True:
            hurries = False
            try:
                hurries = await self.look()
            except MediaStoreError as exc:  # away: that is no loss
                log.warning("media_store_away", reason=str(exc))
            task.progress()
            await asyncio.sleep(BREATH if hurries else WAKE)

    async def look(self) -> bool:
        """Look for the next files; whether all of them are looked for at once."""
        known = await self.upkeep.state(MEDIA, FilesState)
        async with self.upkeep.turn(MEDIA, FilesState, every=timedelta() if known.hurry else EVERY) as turn:
            if turn is None or not await self._is_ours(turn):
                return False
            await self._look_for_files(turn)
        return turn.state.hurry

    async def report(self) -> dict[str, Any]:
        """For health."""
        state = await self.upkeep.state(MEDIA, FilesState)
        error = self.refused or None
        if error is None and state.missed_since is not None:
            error = (
                f"{state.place} is empty or another one: mount it again; after ten minutes its files are fetched anew"
            )
        if error is None and state.hurry:
            error = (
                f"files vanished: {state.examined:,} looked for, {state.lost:,} lost, {state.fetched:,} fetched again"
            )
        figures = {"examined": state.examined, "lost": state.lost, "fetched_again": state.fetched}
        return {"status": "degraded" if error else "ok", "error": error, "place": state.place, **figures}

    async def _is_ours(self, turn: Turn[FilesState]) -> bool:
        """Whether this is the store that the files should be in; one that was missed for long is taken as it is."""
        state, mark = turn.state, await self.store.mark()
        elsewhere = state.place not in ("", self.place) and turn.now - state.seen_at < ABSENT
        if mark != state.mark and state.mark and elsewhere:
            self.refused = f"files are kept at {state.place}, and this process has {self.place}: set MEDIA_URL for both"
            return False
        self.refused = ""
        here = msgspec.structs.replace(state, place=self.place, seen_at=turn.now, missed_since=None)
        if mark is not None and mark == state.mark:
            turn.state = here
            return True
        if state.mark and (state.missed_since is None or turn.now - state.missed_since < PATIENCE):
            if state.missed_since is None:
                ENGINE_LOSSES.labels(MEDIA).inc()
                log.warning("media_store_exchanged", place=self.place)
            turn.state = msgspec.structs.replace(here, missed_since=state.missed_since or turn.now)
            return False
        new = mark or uuid4().hex
        await self.store.set_mark(new)
        begun = FilesState(mark=new, place=self.place, seen_at=turn.now, hurry=bool(state.mark))
        turn.state = begun if state.mark else msgspec.structs.replace(here, mark=new)
        return True

    async def _look_for_files(self, turn: Turn[FilesState]) -> None:
        state = turn.state
        files = await self.files.kept_after(state.after, limit=BATCH)
        gone = [sha256 for sha256, key in files if not await self.store.exists(key)]
        fetched = await self.files.lost(gone) if gone else 0
        if gone:
            FILES_LOST.inc(len(gone))
            log.warning("files_lost", files=len(gone), fetched_again=fetched)
        turn.state = msgspec.structs.replace(
            state,
            after=files[-1][0] if files else "",
            examined=state.examined + len(files),
            lost=state.lost + len(gone),
            fetched=state.fetched + fetched,
        )
        if len(files) < BATCH:
            turn.state = msgspec.structs.replace(turn.state, after="", examined=0, lost=0, fetched=0, hurry=False)
