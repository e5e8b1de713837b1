"""`make faults`: every fault of the catalogue, one by one, put into running installations; a table of what happened."""

from __future__ import annotations

import argparse
import asyncio
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from faults.catalogue import ALL
from faults.catalogue.clocks import FAULTS as CLOCKS
from faults.hurry import LIBRARY, hurry
from faults.installation import LAYOUTS, Size
from faults.lanes import Run, run_lanes
from faults.report import save, shown


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m faults", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-k", dest="pattern", default="", help="only faults whose name or mark matches, e.g. -k N1")
    parser.add_argument("--lanes", type=int, default=4, help="installations side by side")
    parser.add_argument("--channels", type=int, default=60, help="in each of them")
    parser.add_argument("--layout", choices=LAYOUTS, default=None, help="only installations of this kind")
    parser.add_argument("--recovery", type=float, default=600.0, help="seconds to be well again after a fault")
    parser.add_argument(
        "--slack", type=float, default=1.0, help="times that noticing may take longer, on a busy machine"
    )
    parser.add_argument("--hurry", type=float, default=1.0, help="times that the clock runs faster: a quiet day")
    parser.add_argument("--posts", type=float, default=0.2, help="that are posted in a second")
    parser.add_argument("--quick", action="store_true", help="only the few that are tests of `make test`")
    parser.add_argument("--list", action="store_true", help="show the faults and end")
    parser.add_argument("--write", action="store_true", help="write docs/faults.md")
    parser.add_argument("--where", type=Path, default=None, help="folder for the installations")
    return parser.parse_args(argv)


async def main(argv: Sequence[str]) -> int:
    said = arguments(argv)
    if said.hurry > 1:
        hurry(said.hurry, argv)
    exact = re.compile(rf"(?:{said.pattern})(?!\d)", re.IGNORECASE)
    chosen = [fault for fault in ALL if exact.search(f"{fault.mark} {fault.name}")]
    chosen = [fault for fault in chosen if fault.quick or not said.quick]
    chosen = [fault for fault in chosen if fault.hurried == (said.hurry > 1)]
    chosen = [fault for fault in chosen if said.layout in {None, fault.layout}]
    if not LIBRARY.exists():
        print("Without libfaketime (`make faketime`) the faults of clocks are left out.")
        chosen = [fault for fault in chosen if fault not in CLOCKS]
    if said.list or not chosen:
        print(*(f"{fault.mark:4} {fault.scope:8} {fault.name}" for fault in chosen), sep="\n")
        return 0 if chosen else 2
    me = asyncio.current_task()
    for number in (signal.SIGINT, signal.SIGTERM):
        if me is not None:
            asyncio.get_running_loop().add_signal_handler(number, me.cancel)
    size = Size(channels=said.channels, a_second=said.posts, recovery=said.recovery, slack=said.slack, hurry=said.hurry)
    run = Run(size, keep=save) if said.write else Run(size)
    try:
        await run_lanes(run, chosen, lanes=said.lanes, where=said.where)
    except asyncio.CancelledError:
        print("Interrupted: this is what is known so far.")
    run.outcomes.sort(key=lambda outcome: chosen.index(outcome.fault))
    print(shown(run))
    return 0 if run.good and len(run.outcomes) == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
