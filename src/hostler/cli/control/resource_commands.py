"""Commands that all resources of a control plane share: list, get, delete, and verbs for several of them.

``ResourceCommands`` is data: a command group, the client's calls, the columns, and the text for an empty list.
It makes the shared commands. What is special to one resource is in that resource's module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import click
import msgspec

from hostler.cli.control.connection import CommandTarget, fleet_target_options, target_options
from hostler.cli.control.options import confirm, yes_option
from hostler.cli.control.output import Field, output, show_list, show_one
from hostler.cli.options import examples
from hostler.cli.output.terminal import printable, say

if TYPE_CHECKING:
    from hostler.control.client import Client

__all__ = ["ResourceCommands", "all_projects_option", "list_in_project", "nothing_in_project", "nothing_yet"]

T = TypeVar("T")

all_projects_option = click.option(
    "-A", "--all-projects", is_flag=True, help="Of all projects that the key can access."
)


class ResourceCommands(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One kind of resource, for its commands. With ``is_in_project`` it is named by project and name."""

    group: click.Group
    title: str  # of one of them, with its name: ``quota of {}``
    calls: Callable[[Client], Any]
    fields: Sequence[Field[T]]
    details: Sequence[Field[T]] = ()  # of one; else the fields
    nothing: str = ""  # what a whole list that is empty says; in a project, how that ends
    plural: str = ""  # in a project: what a list is of
    metavar: str = "NAME"
    complete: Callable[[click.Context, click.Parameter, str], list[str]] | None = None
    guard: Callable[[str], AbstractContextManager[None]] = lambda name: nullcontext()  # around calls about one
    is_in_project: bool = False

    def add_list(self, summary: str, text: str, *lines: str) -> None:
        """Add ``list``: all resources, or those of a project."""

        def run(target: CommandTarget, output: str, *, all_projects: bool = False) -> None:
            with target.open() as client:
                if not self.is_in_project:
                    show_list(self.calls(client).list(), self.fields, output, nothing=self.nothing)
                    return
                project = "" if all_projects else client.target.project
                found = list_in_project(client, project, self.calls(client).list(project=project))
                show_list(found, self.fields, output, nothing=nothing_yet(project, self.plural, self.nothing))

        command = self._connected(output(run))
        command = all_projects_option(command) if self.is_in_project else command
        self._add("list", command, summary, text, lines)

    def add_get(self, summary: str, text: str, *lines: str) -> None:
        """Add ``get``: one resource by its name."""

        def run(target: CommandTarget, name: str, output: str) -> None:
            with target.open() as client, self.guard(name):
                show_one(self.calls(client).get(*self._name(client, name)), self.details or self.fields, output)

        self._add("get", self._named(self._connected(output(run))), summary, text, lines)

    def add_delete(self, summary: str, text: str, *lines: str) -> None:
        """Add ``delete``, which asks first."""

        def run(target: CommandTarget, name: str, *, yes: bool) -> None:
            confirm(f"Delete the {self.title.format(name)}?", is_sure=yes)
            with target.open() as client, self.guard(name):
                words = self._name(client, name)
                self.calls(client).delete(*words)
            say(printable(f"{self.title.format('/'.join(words))}: deleted"))

        self._add("delete", self._named(yes_option()(self._connected(run))), summary, text, lines)

    def add_verb(
        self, verb: str, summary: str, text: str, *lines: str, act: Callable[[Client, str], object], outcome: str,
        question: str = "",
    ) -> None:  # fmt: skip
        """Add a verb for several resources by their ids; with a question, it asks first."""

        def run(target: CommandTarget, ids: tuple[str, ...], *, yes: bool = True) -> None:
            confirm(question.format(", ".join(ids)), is_sure=yes)
            with target.open() as client:
                for one in ids:
                    act(client, one)
                    say(f"{self.title.format(one)}: {outcome}")

        command = yes_option()(self._connected(run)) if question else self._connected(run)
        self._add(verb, click.argument("ids", metavar="ID…", nargs=-1, required=True)(command), summary, text, lines)

    def _connected(self, command: Callable[..., Any]) -> Callable[..., Any]:
        return target_options(command) if self.is_in_project else fleet_target_options(command)

    def _named(self, command: Callable[..., Any]) -> Callable[..., Any]:
        return click.argument("name", metavar=self.metavar, shell_complete=self.complete)(command)

    def _name(self, client: Client, name: str) -> tuple[str, ...]:
        return client.split_name(name) if self.is_in_project else (name,)

    def _add(self, verb: str, command: Callable[..., Any], summary: str, text: str, lines: Sequence[str]) -> None:
        self.group.command(verb, help=text, epilog=examples(*lines), short_help=summary)(command)


def list_in_project(client: Client, project: str, items: Iterable[T]) -> list[T]:
    """Return the items of a project. If there are none, check that the project exists; ServerNotFoundError."""
    found = list(items)
    if project and not found:
        client.check_project(project)
    return found


def nothing_in_project(project: str, what: str) -> str:
    """Return the text for an empty list, with how to see other projects."""
    if not project:
        return f"there are no {what} in any project"
    return f"there are no {what} in project {project}; -p names another project, -A means all"


def nothing_yet(project: str, what: str, make: str) -> str:
    """Return the text for an empty list, with the command that creates the first item."""
    if not project:
        return f"there are no {what} yet in any project: {make}"
    return f"there are no {what} in project {project} yet: {make}; -p names another project, -A means all"
