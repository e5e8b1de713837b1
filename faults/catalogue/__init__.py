"""Every fault, by where it happens."""

from __future__ import annotations

from faults.catalogue import clocks, engines, history, pipeline, processes, quiet, strangers, telegram
from faults.trial import Fault

ALL: tuple[Fault, ...] = (
    *telegram.FAULTS,
    *history.FAULTS,
    *engines.FAULTS,
    *pipeline.FAULTS,
    *processes.FAULTS,
    *clocks.FAULTS,
    *strangers.FAULTS,
    *quiet.FAULTS,
)
