"""Commands that are listed without being imported, so that help, completion and the version come at once."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

WITH_MINUS = {"search:search", "channels:priority"}  # -word is part of a query, and -5 a number


class _Flags:
    """Flags that are not given are False: to understand a None typer loads pydantic, which takes twice the time."""

    def get_params(self, ctx: Any) -> list[Any]:
        found: list[Any] = super().get_params(ctx)  # type: ignore[misc]  # of the class that is mixed in
        for one in found:
            if getattr(one, "is_flag", False) and one.default is None:
                one.default = False
        return found


class _Command(_Flags, TyperCommand):
    """A command that is loaded."""


class Menu(_Flags, TyperGroup):
    """Prints its help in panels as typer does, without the Markdown and the tracebacks that typer loads for it."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        console = import_module("rich.console").Console(highlight=False)
        console.print(f"\n {self.get_usage(ctx)}\n\n {self.help}\n", markup=False, soft_wrap=True)
        panels = {"Options": [(", ".join(one.opts), getattr(one, "help", "")) for one in self.get_params(ctx)]}
        for name, command in self.commands.items():
            title = getattr(command, "rich_help_panel", None) or "Commands"
            panels.setdefault(title, []).append((name, (command.help or "").partition("\n")[0]))
        width = max(len(name) for rows in panels.values() for name, _ in rows)
        for title, rows in panels.items():
            console.print(_panel(title, rows, width))
        self.format_epilog(ctx, formatter)


def _panel(title: str, rows: list[tuple[str, str]], width: int) -> Any:
    table = import_module("rich.table").Table(box=None, show_header=False, expand=True, pad_edge=False)
    table.add_column(style="bold cyan", no_wrap=True, width=width)
    table.add_column(ratio=1)
    for row in rows:
        table.add_row(*map(import_module("rich.markup").escape, row))
    return import_module("rich.panel").Panel(table, title=title, title_align="left", border_style="dim")


def later(where: str) -> type[TyperCommand]:
    """A command that imports `module:function` of this package when it is called, or asked for its own help."""

    class Later(TyperCommand):
        """Hands over to the command that it names."""

        def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
            module, _, function = where.partition(":")
            app = typer.Typer(add_completion=False)
            taken = app.command(
                self.name,
                cls=_Command,
                help=self.help,
                epilog=self.epilog,
                context_settings={"ignore_unknown_options": where in WITH_MINUS},
            )
            taken(getattr(import_module(f"telegram_assistant.cli.{module}"), function))
            return typer.main.get_command(app).make_context(info_name, args, parent, **extra)

    return Later


def fill(app: typer.Typer, table: str) -> None:
    """Put the commands of a table into their groups and panels."""
    groups = {"": app}
    for panel, head, told, example in _rows(table):
        path, _, where = head.partition(" = ")
        group, _, name = path.rpartition(" ")
        if not where:
            groups[name] = typer.Typer(cls=Menu, no_args_is_help=True)
            app.add_typer(groups[name], name=name, help=told, rich_help_panel=panel)
            continue
        shown = None if group else panel
        groups[group].command(name, cls=later(where), help=told, epilog=example, rich_help_panel=shown)(_nothing)


def _rows(table: str) -> Iterator[tuple[str, str, str, str]]:
    """The panel, the head, the help and the example of each entry: its lines are indented below the head."""
    for part in table.strip().split("\n\n"):
        title, *entries = part.replace("\n  ", "\0").splitlines()
        for entry in entries:
            head, first, *more = entry.split("\0")
            example = more.pop() if more and more[-1].startswith("Example") else ""
            yield title.removeprefix("# "), head, "\n\n".join(filter(None, (first, " ".join(more)))), example


def _nothing() -> None:
    """Stands in the list for the function that is imported later."""
