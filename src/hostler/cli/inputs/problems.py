"""All that is wrong with some files, though readers stop at the first problem that they find.

What a problem is about is taken out of its document, and the files are read again: what is left has the other problems.
A document that is watched tells which of its parts a message is about, because every message asks it for its line.
Used by ``hostler config validate``.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from typing import Any, NamedTuple

import click
import msgspec

from hostler.config import Document, quote
from hostler.config.key_paths import Path, describe_path
from hostler.errors import HostlerError
from hostler.manifests import is_manifest

__all__ = ["CheckReport", "find_problems"]

MOST = 50  # problems; more at once do not help

_HEAD = ("apiVersion", "kind")

Check = Callable[[Sequence[Document]], list[str]]


class CheckReport(NamedTuple):
    """The summary of a check of files, and their problems; ``is_cut``: there may be more."""

    lines: list[str]
    problems: list[HostlerError]
    is_cut: bool = False


class PartialDocument(Document, frozen=True, eq=False):
    """A document without some of its parts; lines are those of the whole one."""

    taken: dict[Path, list[int]] = msgspec.field(default_factory=dict)  # numbers of items, by where their list is
    asked: list[tuple[str, Path]] = msgspec.field(default_factory=list)  # places that were told, with the path here

    def where(self, path: Path = ()) -> str:
        """Return the place, and remember that it was asked for."""
        place = Document.where(self, self.original(path))
        self.asked.append((place, path))
        return place

    def where_items(self, path: Path, count: int) -> list[str]:
        """Return the places of items one by one."""
        return [self.where((*path, index)) for index in range(count)]

    def original(self, path: Path) -> Path:
        """Return the path in the whole document."""
        found: list[str | int] = []
        for step in path:
            if isinstance(step, int):
                for number in sorted(self.taken.get(tuple(found), ())):
                    step += step >= number
            found.append(step)
        return tuple(found)

    def path_of_problem(self, message: str) -> Path | None:
        """Return the path in this document that a message is about, or None."""
        return next((path for place, path in reversed(self.asked) if message.startswith(f"{place}: ")), None)

    def without(self, path: Path) -> PartialDocument:
        """Return the document without the value at a path."""
        taken = {where: list(numbers) for where, numbers in self.taken.items()}
        whole = self.original(path)
        if isinstance(path[-1], int):
            taken.setdefault(whole[:-1], []).append(int(whole[-1]))
        return msgspec.structs.replace(self, data=_without(self.data, path), taken=taken, asked=[])


def find_problems(documents: Sequence[Document], check: Check) -> CheckReport:
    """Check documents repeatedly, each time without the problems found so far, until there are none."""
    left = [_watched(document) for document in documents]
    places = {_key(document): number for number, document in enumerate(left)}
    problems: list[tuple[int, int, HostlerError]] = []  # with document and line, to tell them in that order
    names: set[str] = set()  # of things that were taken out: who refers to them is not to blame
    taken: set[tuple[tuple[str, int], Path]] = set()
    lines: list[str] = []
    while left and len(problems) < MOST:
        notes = io.StringIO()
        try:
            with redirect_stderr(notes):
                lines = check(left)
            click.echo(notes.getvalue(), nl=False, err=True)
            break
        except HostlerError as error:
            at, path = _blame(error, left, check)
            if at is None:
                problems.append((len(places), 0, error))
                break
            document, key, whole = left[at], _key(left[at]), left[at].original(path)
            is_told = document.path_of_problem(error.message) is not None
            follows = is_told and any(one == key and where[: len(whole)] == whole for one, where in taken)
            if not follows and not any(quote(name) in error.message for name in names):
                problems.append((places[key], document.line_of(whole) or 0, _renumber(error, path, whole)))
            names |= _names_in(document.data, path)
            taken.add((key, whole))
            left[at : at + 1] = [document.without(path)] if path else []
    problems.sort(key=lambda one: one[:2])
    return CheckReport(lines, [error for *_, error in problems], is_cut=len(problems) >= MOST)


def _key(document: Document) -> tuple[str, int]:
    return document.source, document.index


def _watched(document: Document) -> PartialDocument:
    fields = {name: getattr(document, name) for name in Document.__struct_fields__}
    return PartialDocument(**fields, taken={}, asked=[])


def _blame(error: HostlerError, documents: Sequence[PartialDocument], check: Check) -> tuple[int | None, Path]:
    """Return which document an error is about, and where in it, as far as that can be known."""
    for at, document in enumerate(documents):
        path = document.path_of_problem(error.message)
        if path is not None:
            return at, _existing(document.data, path)
    for at, document in enumerate(documents):  # messages about Kubernetes objects and plugins name no line
        if _complaint(document, check) == error.message:
            alone = (key for key in _sections(document) if _complaint(_only(document, key), check) == error.message)
            key = next(alone, None)
            return at, () if key is None else (key,)
    return None, ()


def _sections(document: Document) -> list[str]:
    """Return the parts of a file of ours that mean something alone; a Kubernetes object is one thing."""
    if not isinstance(document.data, dict) or is_manifest(document.data):
        return []
    return [key for key in document.data if key not in _HEAD]


def _only(document: PartialDocument, key: str) -> PartialDocument:
    """Return the document with one of its sections."""
    assert isinstance(document.data, dict)
    data = {name: value for name, value in document.data.items() if name in (*_HEAD, key)}
    return msgspec.structs.replace(document, data=data, asked=[])


def _complaint(document: Document, check: Check) -> str:
    """Return the first problem of a document alone."""
    try:
        with redirect_stderr(io.StringIO()):
            check([document])
    except HostlerError as error:
        return error.message
    return ""


def _existing(data: object, path: Path) -> Path:
    """Return as much of a path as there is."""
    value: Any = data
    for at, step in enumerate(path):
        is_there = step in value if isinstance(value, dict) else isinstance(step, int) and isinstance(value, list)
        if not is_there or (isinstance(value, list) and int(step) >= len(value)):
            return path[:at]
        value = value[step]
    return path


def _without(value: Any, path: Path) -> Any:  # noqa: ANN401 - plain values
    """Copy plain values without the one at a path."""
    step, rest = path[0], path[1:]
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    if rest:
        copy[step] = _without(value[step], rest)
    else:
        del copy[step]
    return copy


def _names_in(data: Any, path: Path) -> set[str]:  # noqa: ANN401 - plain values
    """Return the names of what is taken out."""
    value = data
    for step in path:
        value = value[step]
    things = value if isinstance(value, list) else [value]
    found = [one.get("name") for one in things if isinstance(one, dict)]
    found += [value] if path[-1:] == ("name",) else []
    return {name for name in found if isinstance(name, str) and name}


def _renumber(error: HostlerError, path: Path, whole: Path) -> HostlerError:
    """Return the error with the numbers that items have in the whole document."""
    last = max((at for at, step in enumerate(path, 1) if isinstance(step, int)), default=0)
    here, there = describe_path(path[:last]), describe_path(whole[:last])
    if here == there:
        return error
    place, _, message = error.message.partition(": ")
    return type(error)(f"{place}: {message.replace(here, there, 1)}", hint=error.hint)
