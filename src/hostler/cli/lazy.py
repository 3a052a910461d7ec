"""Groups of commands that are imported only when they are called, so that a list of commands needs none of them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, TypeAlias

import click

__all__ = ["LazyGroup", "Table"]

Table: TypeAlias = Mapping[str, tuple[str, str, str]]  # name: module, variable in it, summary


class LazyGroup(click.Group):
    """A group whose commands stand in a table."""

    def __init__(self, *args: Any, table: Table, **kwargs: Any) -> None:  # noqa: ANN401 (click's own)
        super().__init__(*args, **kwargs)
        self._table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the commands in the order of the table, which is the order of use."""
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in self._table:
            return None
        module, variable, _ = self._table[cmd_name]
        command: click.Command = getattr(import_module(module), variable)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, _, summary) in self._table.items()])
