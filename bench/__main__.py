"""`python -m bench [NAME]`: run all benchmarks or one, print a table, write bench/results/*.json."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from bench.figure import Figure, machine

_NOT_BENCHMARKS = {"__init__", "__main__", "figure"}


def benchmarks() -> dict[str, Callable[[], list[Figure]]]:
    """Every module here with a `run()`, by its name."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("*.py"))
    modules = {name: import_module(f"bench.{name}") for name in names if name not in _NOT_BENCHMARKS}
    return {name: module.run for name, module in modules.items() if hasattr(module, "run")}


def main(arguments: Sequence[str]) -> int:
    known = benchmarks()
    unknown = [name for name in arguments if name not in known]
    if unknown:
        print(f"no benchmark {unknown[0]!r}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    print(machine())
    print(f"{'figure':44} {'value':>12} {'limit':>12} {'ratio':>7}  unit")
    for name in arguments or known:
        for figure in known[name]():
            figure.save()
            print(f"{figure.name:44} {figure.value:12,.1f} {figure.limit:12,.1f} {figure.ratio:7.3f}  {figure.unit}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
