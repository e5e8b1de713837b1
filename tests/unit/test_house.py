"""The rules of the house, read from the source. Each names the line of SPEC, LESSONS or STYLE that it guards."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
ASSISTANT, SIMULATOR = "telegram_assistant", "telegram_simulator"


class Module:
    """One file of ours, parsed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.relative_to(SOURCE).as_posix()  # telegram_assistant/bus/supervisor.py
        self.text = path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        """Parsed when a test asks for it: each test process collects this file, one runs it."""
        return ast.parse(self.text, self.name)

    def nodes(self) -> Iterator[ast.AST]:
        return ast.walk(self.tree)

    def imports(self) -> Iterator[tuple[str, int]]:
        for node in self.nodes():
            if isinstance(node, ast.Import):
                yield from ((alias.name, node.lineno) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{self.name}:{node.lineno}: imports are absolute"
                yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)

    def docstrings(self) -> set[int]:
        """Ids of the constants that are docstrings: what they mention is no use of it."""
        holders = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        bodies = [node.body for node in self.nodes() if isinstance(node, holders) and node.body]
        return {id(body[0].value) for body in bodies if isinstance(body[0], ast.Expr)}


MODULES = [Module(path) for path in sorted(SOURCE.glob("telegram_*/**/*.py"))]
OURS = [module for module in MODULES if module.name.startswith(f"{ASSISTANT}/")]


def found(modules: list[Module], wanted: Callable[[ast.AST], bool], allowed: str = r"(?!)") -> list[str]:
    """Where a node is wanted by nobody: in every module whose name does not match `allowed`."""
    return [
        f"{module.name}:{getattr(node, 'lineno', 0)}"
        for module in modules
        if not re.fullmatch(allowed, module.name)
        for node in module.nodes()
        if wanted(node)
    ]


def attribute(*names: str) -> Callable[[ast.AST], bool]:
    return lambda node: isinstance(node, ast.Attribute) and ast.unparse(node) in names


def test_the_source_is_found() -> None:
    assert len(OURS) > 20
    assert len(MODULES) > len(OURS)


def test_tasks_are_started_by_the_supervisor_only() -> None:
    """SPEC 7.6, STYLE 7: a task that nobody watches ends unnoticed. The simulator watches its own connections."""
    free = attribute("asyncio.create_task", "loop.create_task", "asyncio.get_running_loop().create_task")
    assert found(OURS, free, rf"{ASSISTANT}/bus/supervisor\.py") == []
    assert [module.name for module in OURS if "asyncio.create_task" in dict(module.imports())] == []


def test_the_environment_is_read_by_the_settings_only() -> None:
    """STYLE 11."""
    reading = attribute("os.environ", "os.getenv", "os.environb", "os.putenv")
    assert found(MODULES, reading, rf"{ASSISTANT}/config\.py") == []


def test_n21_processes_are_started_in_one_place() -> None:
    """LESSONS 36: the least careful of three ways got the strangers' files."""
    starting = re.compile(
        r"asyncio\.create_subprocess_\w+|\w*loop\.subprocess_\w+|os\.(fork\w*|spawn\w+|exec[lv]\w*|posix_spawnp?|system|popen)"
        r"|subprocess\.(Popen|run|call|check_\w+|getoutput|getstatusoutput)"
    )

    def starts(node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and bool(starting.fullmatch(ast.unparse(node.func)))

    assert found(MODULES, starts, rf"{ASSISTANT}/processes/worker\.py") == []
    roads = ("multiprocessing", "concurrent.futures.ProcessPoolExecutor", "pty", "subprocess.Popen", "subprocess.run")
    strays = [module.name for module in MODULES for name, _ in module.imports() if name.startswith(roads)]
    assert strays == []


def test_telethon_is_imported_at_the_edge_only() -> None:
    """STYLE 3: its types and errors become ours in one place."""
    importers = {
        module.name for module in OURS for name, _ in module.imports() if name.split(".")[0] in {"telethon", "cryptg"}
    }
    assert {name for name in importers if not re.fullmatch(rf"{ASSISTANT}/source/telegram\w*\.py", name)} == set()


def test_metrics_are_made_in_one_module() -> None:
    """LESSONS 12: metrics defined twice crashed the scheduler."""
    makers = {f"prometheus_client.{kind}" for kind in ("Counter", "Gauge", "Histogram", "Summary", "Info", "Enum")}
    importers = {module.name for module in MODULES for name, _ in module.imports() if name in makers}
    assert importers == {f"{ASSISTANT}/metrics.py"}
    whole = [module.name for module in MODULES if "prometheus_client" in dict(module.imports())]
    assert whole == [], "import from it what is needed, so that this test can see it"


def test_names_that_others_rely_on_stand_in_one_module() -> None:
    """STYLE 11: streams and keys of Redis."""
    prefixes = (
        "stream:",
        "lock:",
        "parse_hwm:",
        "scheduler:",
        "interarrival_stats:",
        "low_watermark:",
        "backfill_job:",
    )
    strays = [
        f"{module.name}:{node.lineno}: {node.value!r}"
        for module in OURS
        if module.name != f"{ASSISTANT}/names.py"
        for node in module.nodes()
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(prefixes)
        if id(node) not in module.docstrings()
    ]
    assert strays == []


def test_times_are_parsed_at_the_edges_only() -> None:
    """SPEC 7.2, STYLE 3."""

    def parses(node: ast.AST) -> bool:
        return isinstance(node, ast.Attribute) and node.attr in {"fromisoformat", "strptime"}

    assert found(OURS, parses, rf"{ASSISTANT}/(stores/.*|bus/streams|source/.*)\.py") == []


def test_no_time_is_naive() -> None:
    """SPEC 7.2, LESSONS 10."""

    def naive(node: ast.AST) -> bool:
        if isinstance(node, ast.Attribute):
            return node.attr in {"utcnow", "utcfromtimestamp"}
        is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if not is_call or ast.unparse(node.func) not in {"datetime.now", "datetime.datetime.now"}:  # type: ignore[attr-defined]  # mypy forgets is_call
            return False
        return not node.args and not node.keywords  # type: ignore[attr-defined]  # as above

    assert found(MODULES, naive) == []


def test_there_is_no_global_state() -> None:
    """DESIGN, the house."""
    assert found(MODULES, lambda node: isinstance(node, ast.Global)) == []


def test_modules_are_named_for_what_they_hold() -> None:
    """STYLE 5 (layout)."""
    vague = {"utils", "util", "helpers", "helper", "common", "misc", "shared"}
    assert [module.name for module in MODULES if vague & set(re.split(r"[/.]", module.name))] == []


def test_the_simulator_knows_nothing_of_the_assistant() -> None:
    simulator = [module for module in MODULES if module.name.startswith(f"{SIMULATOR}/")]
    strays = [
        f"{module.name}:{line}" for module in simulator for name, line in module.imports() if name.startswith(ASSISTANT)
    ]
    assert strays == []


def test_each_module_and_public_class_says_what_it_is() -> None:
    """STYLE, targets."""
    silent = [module.name for module in MODULES if ast.get_docstring(module.tree) is None]
    silent += [
        f"{module.name}:{node.lineno} {node.name}"
        for module in MODULES
        for node in module.tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and ast.get_docstring(node) is None
    ]
    assert silent == []


def test_files_stay_readable() -> None:
    """STYLE, targets."""
    assert [(module.name, length) for module in MODULES if (length := module.text.count("\n")) > 500] == []


def test_nothing_is_left_to_do_in_comments() -> None:
    """A task is an issue or a change, not a comment."""
    marks = re.compile(r"#.*\b(TODO|FIXME|XXX|HACK)\b")
    files = [*SOURCE.rglob("*.py"), *(ROOT / "tests").rglob("*.py"), *(ROOT / "bench").rglob("*.py")]
    assert [str(path) for path in files if path != Path(__file__) and marks.search(path.read_text("utf-8"))] == []


def test_the_checks_are_seldom_switched_off() -> None:
    """STYLE 13: at most two `noqa` and two `type: ignore` in a thousand lines, each with its reason."""
    files = [*SOURCE.rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    lines = [(path, line) for path in files for line in path.read_text("utf-8").splitlines()]
    bare = [
        f"{path.name}: {line.strip()}"
        for path, line in lines
        if path != Path(__file__)
        if re.search(r"#\s*noqa(?!: [A-Z0-9, ]+ - \S)|#\s*type:\s*ignore(?!\[[\w, -]+\]\s+# \S)", line)
    ]
    assert bare == []
    for mark in ("noqa:", "type: ignore["):
        assert sum(f"# {mark}" in line for _, line in lines) <= 2 * len(lines) / 1000
