"""The page, the plots, the figures and the samples of load runs."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.figure import Figure, machine
from bench.load_outcome import OTHERS, OURS, Outcome, Spread, Window
from bench.load_plot import Line, Panel, draw

PARTS = 240  # points of a line
MOST_BYTES = 200_000  # of a file with samples
SHOWN = 15  # lines of the logs

ABOUT = """
A simulated Telegram posts words, two languages, without pictures and links; an account is in at most 500 channels, so
{accounts}.
`tga ingest` hears the posts live over MTProto; `tga worker` processes index them; `tga api` is asked a search every
three seconds (by words: the embedded vectors belong to a worker). Models off means that no post is tagged and that
vectors come ready-made from a server on loopback; on means the local models. Our own pauses between requests to
Telegram are off, everything else is as it is by default. The first visit of every channel is over before the clock
starts. A post counts as saved when its transaction began, as found by its words when its first document was written,
and as indexed when `posts.indexed` told of it.

One machine does everything: the simulated Telegram and whoever posts there, PostgreSQL, Valkey, ingest, the workers,
their models, the API and the measuring itself. A table below says who used how much of its cores.
"""


def write(outcomes: Sequence[Outcome], folder: Path) -> None:
    """What is there already under the same names is replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    page = "soak" if outcomes[0].plan.soak else "load"
    for outcome in outcomes:
        draw(_panels(outcome), _marks(outcome), folder / f"{outcome.name}.svg")
        for figure in figures(outcome):
            figure.save(folder)
        _write_samples(outcome, folder / f"{outcome.name}.csv.gz")
    (folder / f"{page}.md").write_text("\n".join([*_page(outcomes, page), ""]), encoding="utf-8")


def figures(outcome: Outcome) -> list[Figure]:
    """Each beside a limit of the same run: what was posted, the delay in the quiet before, the memory at the start."""
    name = outcome.name.replace("-", "_")
    to_saved, quiet_saved = outcome.delays(outcome.saved), outcome.delays(outcome.saved, quiet=True)
    to_found, quiet_found = outcome.delays(outcome.found), outcome.delays(outcome.found, quiet=True)
    to_indexed, quiet_indexed = outcome.delays(outcome.indexed), outcome.delays(outcome.indexed, quiet=True)
    early, late = _of_ours(outcome.memory(0.1, 0.3)), _of_ours(outcome.memory(0.8, 1.0))
    end = outcome.marks.calm or outcome.samples[-1].at
    return [
        Figure(f"{name}_indexed_while_posting", outcome.indexed_rate, "posts/s", outcome.rate),
        Figure(f"{name}_until_calm", end - outcome.marks.posted, "s", outcome.plan.seconds),
        Figure(f"{name}_saved_p95", to_saved.p95, "s", quiet_saved.p95 or 1.0),
        Figure(f"{name}_found_p95", to_found.p95, "s", quiet_found.p95 or 1.0),
        Figure(f"{name}_indexed_p95", to_indexed.p95, "s", quiet_indexed.p95 or 1.0),
        Figure(f"{name}_memory", late, "MB", early or 1.0),
        Figure(f"{name}_missing", outcome.verdict.missing, "posts", outcome.verdict.truth),
    ]


def _of_ours(memory: dict[str, float]) -> float:
    return sum(megabytes for role, megabytes in memory.items() if role in OURS)


def _page(outcomes: Sequence[Outcome], page: str) -> list[str]:
    plan = outcomes[0].plan
    accounts = -(-plan.channels // 500)
    joined = "one has joined them all" if accounts == 1 else f"{accounts} accounts share them"
    changes = f", {100 * plan.changed:g} changes per 100 posts" if plan.changed else ""
    title = "An hour and longer" if page == "soak" else "Load"
    lines = [
        f"# {title}: {plan.channels:,} channels, {plan.rate:g} posts/s for {plan.seconds / 60:g} min",
        "",
        f"`make {page}` on {machine()}. {plan.workers} workers{changes}.",
        *ABOUT.format(accounts=joined).splitlines(),
        "",
        f"| | {' | '.join('models on' if one.models else 'models off' for one in outcomes)} |",
        f"|---|{'---:|' * len(outcomes)}",
    ]
    lines += [f"| {what} | {' | '.join(say(one) for one in outcomes)} |" for what, say in ROWS]
    for outcome in outcomes:
        lines += ["", f"## Models {'on' if outcome.models else 'off'}", "", f"![Over time]({outcome.name}.svg)", ""]
        lines += _tables(outcome)
    return lines


def _spread(spread: Spread) -> str:
    return f"{spread.median:.3g} / {spread.p95:.3g}" if spread.count else "none"


def _calm(outcome: Outcome) -> str:
    calm = outcome.marks.calm
    return f"not within {outcome.plan.patience:.0f} s" if calm is None else f"{calm - outcome.marks.posted:.0f} s"


ROWS: Sequence[tuple[str, Callable[[Outcome], str]]] = (
    ("posted by the load", lambda one: f"{one.posts:,}"),
    ("posted a second", lambda one: f"{one.rate:.1f}"),
    ("behind its plan at worst", lambda one: f"{one.behind:.2f} s"),
    ("indexed a second, while posts came", lambda one: f"{one.indexed_rate:.1f}"),
    ("most posts that waited", lambda one: f"{one.most_behind:,}"),
    ("after the last post nothing waited in", _calm),
    ("post to saved, p50 / p95, s", lambda one: _spread(one.delays(one.saved))),
    ("the same at two posts/s", lambda one: _spread(one.delays(one.saved, quiet=True))),
    ("post to found by its words, p50 / p95, s", lambda one: _spread(one.delays(one.found))),
    ("the same at two posts/s", lambda one: _spread(one.delays(one.found, quiet=True))),
    ("post to indexed, p50 / p95, s", lambda one: _spread(one.delays(one.indexed))),
    ("the same at two posts/s", lambda one: _spread(one.delays(one.indexed, quiet=True))),
    ("search, p50 / p95, s", lambda one: _spread(one.search())),
    ("searches that failed", lambda one: f"{one.searches_failed} of {len(one.searches) + one.searches_failed}"),
    ("edited, deleted meanwhile", lambda one: f"{one.edited:,}, {one.deleted:,}"),
    ("posts in the truth", lambda one: f"{one.verdict.truth:,}"),
    ("posts in the database", lambda one: f"{one.verdict.stored:,}"),
    ("posts in the vectors", lambda one: f"{one.verdict.vectors:,}"),
    ("posts in the graph", lambda one: f"{one.verdict.nodes:,}"),
    ("missing", lambda one: f"{one.verdict.missing}"),
    ("doubled", lambda one: f"{one.verdict.doubled}"),
    ("with other words", lambda one: f"{one.verdict.other_text}"),
    ("deleted and still there", lambda one: f"{one.verdict.not_deleted}"),
    ("stored and not indexed", lambda one: f"{one.verdict.unindexed + one.verdict.without_vector}"),
    ("gone and still indexed", lambda one: f"{one.verdict.left_in_vectors}"),
    ("dead letters", lambda one: f"{one.verdict.letters.total()}"),
    ("processes that ended and were started again", lambda one: f"{one.restarts}"),
    ("warnings and errors in the logs", lambda one: f"{one.lines.total()}"),
)


def _tables(outcome: Outcome) -> list[str]:
    early, late, cores = outcome.memory(0.1, 0.3), outcome.memory(0.8, 1.0), outcome.cores()
    peak = {role: max(one.use[role].memory for one in outcome.during if role in one.use) for role in late}
    lines = [
        "Memory is the mean of a part of the time in which posts came; cores are CPU seconds a second in that time.",
        "",
        "| role | cores | MB, 10-30 % | MB, 80-100 % | MB, at most |",
        "|---|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {role} | {cores.get(role, 0.0):.2f} | {early.get(role, 0.0):.0f} | {late[role]:.0f} | {peak[role]:.0f} |"
        for role in late
    ]
    lines.append(f"| {OTHERS} | {cores[OTHERS]:.2f} | | | |")
    data = [sample.valkey_data for sample in outcome.during]
    lines += ["", f"Data in Valkey: {max(data):.1f} MB at most, {data[-1]:.1f} MB at the end.", ""]
    lines += ["Furthest behind, in entries of a stream (each holds up to a hundred posts):", ""]
    worst = {name: max(sample.lag[name] for sample in outcome.during) for name in outcome.samples[-1].lag}
    lines += [f"- {name}: {most:,}" for name, most in sorted(worst.items(), key=lambda one: -one[1]) if most][:SHOWN]
    lines.append(f"- rows in the outbox: {max(sample.outbox for sample in outcome.during):,}")
    for title, counted in (("In the logs", outcome.lines), ("Dead letters", outcome.verdict.letters)):
        if counted:
            lines += ["", f"{title}:", "", *(f"- {count} times {what}" for what, count in counted.most_common(SHOWN))]
    return lines


def _marks(outcome: Outcome) -> list[tuple[float, str]]:
    marks = outcome.marks
    found = [(marks.posted - marks.began, "last post")]
    return found + ([] if marks.calm is None else [(marks.calm - marks.began, "nothing waits")])


def _panels(outcome: Outcome) -> list[Panel]:
    windows = outcome.windows(PARTS)
    roles = list(outcome.samples[-1].use)

    def line(name: str, of: Callable[[Window], float | None]) -> Line:
        points = [(round(one.at, 1), of(one)) for one in windows]
        return Line(name, [(at, value) for at, value in points if value is not None])

    def spread(name: str, of: Callable[[Window], Spread]) -> list[Line]:
        return [
            line(f"{name}, p50", lambda one: of(one).median if of(one).count else None),
            line(f"{name}, p95", lambda one: of(one).p95 if of(one).count else None),
        ]

    return [
        Panel(
            f"{outcome.name}: posts a second",
            [
                line("posted", lambda one: one.posted / one.seconds),
                line("saved", lambda one: one.saved / one.seconds),
                line("indexed", lambda one: one.indexed / one.seconds),
            ],
        ),
        Panel(
            "What waits",
            [
                line("posts not indexed", lambda one: one.last.posted - one.last.indexed),
                line("posts not saved", lambda one: one.last.posted - one.last.saved),
                line("rows in the outbox", lambda one: one.last.outbox),
                line("entries in streams", lambda one: sum(one.last.lag.values())),
                line("to be tried again", lambda one: sum(one.last.waiting.values())),
            ],
        ),
        Panel(
            "Seconds from the post",
            [*spread("saved", lambda one: one.to_saved), *spread("indexed", lambda one: one.to_indexed)],
            by_powers=True,
        ),
        Panel("Seconds for a search", spread("search", lambda one: one.search), by_powers=True),
        Panel(
            "Memory, MB",
            [line(role, lambda one, role=role: one.last.use[role].memory) for role in roles],  # type: ignore[misc]  # a loop's variable must be bound
        ),
    ]


def _write_samples(outcome: Outcome, path: Path) -> None:
    out = io.StringIO()
    rows = [sample.row() for sample in outcome.samples]
    writer = csv.DictWriter(out, list(dict.fromkeys(name for row in rows for name in row)))
    writer.writeheader()
    writer.writerows(rows)
    packed = gzip.compress(out.getvalue().encode(), mtime=0)
    if len(packed) < MOST_BYTES:
        path.write_bytes(packed)
    else:
        path.unlink(missing_ok=True)
