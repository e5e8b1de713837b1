"""Every fault, by where it happens."""

from __future__ import annotations

from faults.catalogue import clocks, engines, pipeline, processes, quiet, strangers, telegram
from faults.trial import Fault

ALL: tuple[Fault, ...] = (
    *telegram.FAULTS,
    *engines.FAULTS,
    *pipeline.FAULTS,
    *processes.FAULTS,
    *clocks.FAULTS,
    *strangers.FAULTS,
    *quiet.FAULTS,
)
