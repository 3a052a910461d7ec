"""Output of resources: lists as tables, one resource as lines, both as JSON or YAML too.

Columns are data: a ``Field`` has a heading and a function for its text. Results go to standard output, notes to
standard error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar

import click
import msgspec

from hostler.cli.options import output_option
from hostler.cli.output.decision_texts import readable_amount
from hostler.cli.output.terminal import note, print_data, print_table, printable, say
from hostler.errors import HostlerError, QuantityError
from hostler.model.resources import parse_resource

__all__ = [
    "Field", "age", "amount_text", "amounts_text", "do_in_turn", "labels_text", "output", "shape_output", "show_lines",
    "show_list", "show_one", "show_result",
]  # fmt: skip

T = TypeVar("T")

_SHORT = 6  # letters of an amount: ``1024Gi``

output = output_option("table", "wide", "json", "yaml")  # of commands that read
shape_output = output_option("table", "json", "yaml")  # of commands that change something


class Field(msgspec.Struct, Generic[T], frozen=True):
    """A column: its heading, its text, and whether only wide tables show it."""

    heading: str
    of: Callable[[T], object]
    align: str = "left"
    is_wide: bool = False


def show_list(items: Iterable[T], fields: Sequence[Field[T]], form: str, *, nothing: str) -> None:
    """Write a list. An empty one prints ``nothing`` to standard error, without headings."""
    found = list(items)
    if form in ("json", "yaml"):
        print_data({"items": [msgspec.to_builtins(item) for item in found]}, form)
        return
    if not found:
        note(nothing, label="")
        return
    shown = [field for field in fields if form == "wide" or not field.is_wide]
    rows = [[_cell(field.of(item)) for field in shown] for item in found]
    print_table([(field.heading, field.align) for field in shown], rows)


def show_one(item: T, fields: Sequence[Field[T]], form: str) -> None:
    """Write one resource: a line for each field."""
    if form in ("json", "yaml"):
        print_data(msgspec.to_builtins(item), form)
        return
    lines = {field.heading: field.of(item) for field in fields}
    show_lines({heading: value for heading, value in lines.items() if form == "wide" or value not in ("", None)})


def show_lines(lines: Mapping[str, object]) -> None:
    """Write headings with their lines below each other."""
    width = max((len(heading) for heading in lines), default=0)
    for heading, value in lines.items():
        for at, line in enumerate(_cell(value).split("\n")):
            say(printable(f"{heading if not at else '':<{width}}  {line}").rstrip())


def age(moment: str | None) -> str:
    """Return how long ago a time was, or how far ahead it is: ``5m``, ``in 2h``."""
    if not moment:
        return "-"
    try:
        then = datetime.fromisoformat(moment).timestamp()
    except ValueError:
        return moment
    seconds = int(time.time() - then)  # noqa: TID251 - an age is for people, and of this moment
    ahead, seconds = ("in ", -seconds) if seconds < 0 else ("", seconds)
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{ahead}{seconds // size}{unit}"
    return f"{ahead}{seconds}s"


def labels_text(labels: Mapping[str, str]) -> str:
    """Format labels in one line."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or "-"


def amounts_text(amounts: Mapping[str, object]) -> str:
    """Format amounts in one line: ``cpu 8, memory 16Gi``."""
    return ", ".join(f"{name} {amount_text(name, amount)}" for name, amount in sorted(amounts.items())) or "-"


def amount_text(resource: str, amount: object) -> str:
    """Format an amount as it was given; a very long one is rounded: ``23.5Gi``."""
    text = str(amount)
    if len(text) <= _SHORT:
        return text
    try:
        return readable_amount(resource, parse_resource(resource, text))
    except QuantityError:
        return text


def show_result(item: Any, form: str, text: str) -> None:  # noqa: ANN401 - any of the shapes
    """Write the result of a change: a line, or the whole response."""
    if form in ("json", "yaml"):
        print_data(msgspec.to_builtins(item), form)
    else:
        click.echo(printable(text))


def _cell(value: object) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


R = TypeVar("R")


def do_in_turn(things: Iterable[T], do: Callable[[T], R], show: Callable[[list[R]], None]) -> list[R]:
    """Apply a function to each object and return the results. If one is rejected, show the results before it."""
    done: list[R] = []
    try:
        for thing in things:
            done.append(do(thing))  # noqa: PERF401 - what was done before a refusal is kept
    except HostlerError:
        if done:
            show(done)
        raise
    return done
