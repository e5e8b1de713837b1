"""`python -m bench [NAME]`: run all benchmarks or one, print a table, write bench/results/*.json."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
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
    wanted = {name: name if name in known else _meant(name, known) for name in arguments}
    unknown = [name for name, found in wanted.items() if not found]
    if unknown:
        print(f"no benchmark {unknown[0]!r}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    print(machine())
    print(f"{'figure':44} {'value':>12} {'limit':>12} {'ratio':>7}  unit")
    for name in wanted.values() or known:
        for figure in known[name]():
            figure.save()
            print(f"{figure.name:44} {figure.value:12,.1f} {figure.limit:12,.1f} {figure.ratio:7.3f}  {figure.unit}")
    return 0


def _meant(beginning: str, known: Collection[str]) -> str:
    """The one that begins so: `import` is importing, which as a module could not be called so."""
    found = [name for name in known if name.startswith(beginning)]
    return found[0] if len(found) == 1 else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
