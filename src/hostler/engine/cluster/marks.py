"""Marks: labels, taints and cordons of host rows as columns, for filters that depend on nothing else.

A label key that a guest or policy refers to gets a column of value numbers (-1 if the host lacks the label), so that an
expression is one numpy operation over all rows. The least recently used columns are dropped. Equal lists of taints
share a number. Numbers of unused taints and values are reused: no decision depends on them.
"""

from __future__ import annotations

import numpy as np

from hostler.engine.cluster.tables import MAX_SUBJECTS, Table
from hostler.engine.kernels.layout import Bools, Int32s, Int64s
from hostler.model import Expression, Host, Labels, Taint, Term

__all__ = ["Marks"]

_LOG_SIZE = 65_536
_MAX_COLUMNS = 256  # of label keys in use: a column costs four bytes a row


class Marks:
    """The label, taint and cordon columns, with a log of the rows that changed."""

    def __init__(self) -> None:
        self._rows = 0
        self._columns: dict[str, Int32s] = {}  # in order of last use
        self._values: dict[str, Table[str]] = {}
        self._labels: list[Labels] = []
        self.names: list[str] = []
        self.taint_lists: Table[tuple[Taint, ...]] = Table([()])
        self.taints: Int32s = np.zeros(0, dtype=np.int32)
        self._taint_users = [0]
        self.taint_texts: Table[str] = Table()
        self._text_users: dict[str, int] = {}
        self.cordoned = np.zeros(0, dtype=np.bool_)
        self._images: dict[str, dict[int, int]] = {}  # image to row to size
        self._images_of: dict[int, tuple[tuple[str, int], ...]] = {}
        self._changed: list[int] = []  # rows in order of change; caches remember how far they read
        self._changed_from = 0

    def fit(self, rows: int) -> None:
        """Make room for so many rows."""
        if rows <= self._rows:
            return
        self._columns = {key: _grow_column(column, rows, -1) for key, column in self._columns.items()}
        self.taints = _grow_column(self.taints, rows, 0)
        cordoned = np.zeros(rows, dtype=np.bool_)
        cordoned[: self._rows] = self.cordoned
        self.cordoned = cordoned
        self._labels.extend([()] * (rows - self._rows))
        self.names.extend([""] * (rows - self._rows))
        self._rows = rows

    def write(self, row: int, host: Host) -> None:
        """Write a host's marks; a host with unchanged marks is not logged."""
        taints = self.taint_lists.number(host.taints)
        same = (
            self.names[row] == host.name
            and self._labels[row] == host.labels
            and self.taints[row] == taints
            and bool(self.cordoned[row]) == host.cordoned
            and self._images_of.get(row, ()) == host.images
        )
        if same:
            return
        self._clear_labels(row)
        for key, value in host.labels:
            column = self._columns.get(key)
            if column is not None:
                column[row] = self._values[key].number(value)
                if len(self._values[key]) > 2 * self._rows:
                    del self._columns[key], self._values[key]  # mostly values of the past: made again when asked for
        self._labels[row] = host.labels
        self.names[row] = host.name
        self._taint(row, taints)
        self.cordoned[row] = host.cordoned
        self._set_images(row, host.images)
        self._log(row)

    def clear(self, row: int) -> None:
        """Clear a row's marks."""
        self._clear_labels(row)
        self.names[row] = ""
        self._taint(row, 0)
        self.cordoned[row] = False
        self._set_images(row, ())
        self._log(row)

    def _set_images(self, row: int, images: tuple[tuple[str, int], ...]) -> None:
        for image, _ in self._images_of.pop(row, ()):
            rows = self._images.get(image, {})
            rows.pop(row, None)
            if not rows:
                self._images.pop(image, None)
        for image, size in images:
            self._images.setdefault(image, {})[row] = size
        if images:
            self._images_of[row] = images

    def present_taints(self) -> list[tuple[Taint, ...]]:
        """Return the lists of taints that present hosts have."""
        return [taints for taints, users in zip(self.taint_lists.values, self._taint_users, strict=True) if users]

    def _taint(self, row: int, number: int) -> None:
        self._taint_users.extend([0] * (len(self.taint_lists) - len(self._taint_users)))
        before, had_names = int(self.taints[row]), self.names_taints
        if number:
            self._taint_users[number] += 1
            if self._taint_users[number] == 1:
                self._name_taints(self.taint_lists.values[number], 1)
        self.taints[row] = number
        if before:
            self._taint_users[before] -= 1
            if not self._taint_users[before]:
                self._name_taints(self.taint_lists.values[before], -1)
                self.taint_lists.release(self.taint_lists.values[before], ())
        if had_names != self.names_taints:
            self._forget_log()

    @property
    def names_taints(self) -> bool:
        """Say whether there are few enough taints to name the one that rejects a guest."""
        return len(self._text_users) <= MAX_SUBJECTS

    def _name_taints(self, taints: tuple[Taint, ...], by: int) -> None:
        """Add (``by`` 1) or remove (-1) one host with this list of taints."""
        for text in {taint.text() for taint in taints}:
            users = self._text_users[text] = self._text_users.get(text, 0) + by
            self.taint_texts.number(text)
            if not users:
                del self._text_users[text]
                self.taint_texts.release(text, "")

    def matches(self, expression: Expression, rows: Int64s) -> Bools:
        """Evaluate one expression on the given rows."""
        column, values = self.column(expression.key)
        of_rows = column[rows]
        result: Bools
        if expression.operator in ("Exists", "DoesNotExist"):
            result = (of_rows >= 0) == (expression.operator == "Exists")
        elif expression.operator in ("In", "NotIn"):
            wanted = [n for n in (values.find(v) for v in expression.values) if n >= 0]
            result = np.isin(of_rows, wanted) == (expression.operator == "In")
        else:
            truth = np.array([expression.matches(((expression.key, v),)) for v in values.values] + [False])
            result = truth[of_rows]
        return result

    def matches_term(self, term: Term, rows: Int64s) -> Bools:
        """Evaluate one term on the given rows; an empty term matches nothing."""
        if not term.expressions and not term.names:
            return np.zeros(len(rows), dtype=np.bool_)
        result: Bools = np.ones(len(rows), dtype=np.bool_)
        for expression in term.expressions:
            result &= self.matches(expression, rows)
        for expression in term.names:
            result &= self.rows_named(expression.values, rows) == (expression.operator == "In")
        return result

    def image_sizes(self, image: str) -> dict[int, int]:
        """Return the rows that have an image, and its size in bytes there."""
        return self._images.get(image, {})

    def column(self, key: str) -> tuple[Int32s, Table[str]]:
        """Return the column of a label key, and the values behind its numbers."""
        column = self._columns.pop(key, None)
        if column is None:
            column = np.full(self._rows, -1, dtype=np.int32)
            values = self._values[key] = Table()
            for row, labels in enumerate(self._labels):
                for name, value in labels:
                    if name == key:
                        column[row] = values.number(value)
            while len(self._columns) >= _MAX_COLUMNS:
                oldest = next(iter(self._columns))
                del self._columns[oldest], self._values[oldest]
        self._columns[key] = column
        return column, self._values[key]

    def rows_named(self, names: tuple[str, ...], rows: Int64s) -> Bools:
        """Say which of the given rows hold a host of one of these names."""
        wanted = set(names)
        return np.fromiter((self.names[row] in wanted for row in rows.tolist()), dtype=np.bool_, count=len(rows))

    def copy(self) -> Marks:
        """Return an independent copy."""
        twin = Marks()
        twin._rows = self._rows
        twin._columns = {key: column.copy() for key, column in self._columns.items()}
        twin._values = {key: table.copy() for key, table in self._values.items()}
        twin._labels = self._labels.copy()
        twin.names = self.names.copy()
        twin.taint_lists = self.taint_lists.copy()
        twin.taints = self.taints.copy()
        twin._taint_users = self._taint_users.copy()
        twin.taint_texts = self.taint_texts.copy()
        twin._text_users = self._text_users.copy()
        twin.cordoned = self.cordoned.copy()
        twin._images = {image: rows.copy() for image, rows in self._images.items()}
        twin._images_of = self._images_of.copy()
        return twin

    @property
    def log_end(self) -> int:
        """Return the position after the last change."""
        return self._changed_from + len(self._changed)

    def rows_changed_since(self, position: int) -> Int64s | None:
        """Return the rows whose marks changed since a position, or None if the log no longer has all of them."""
        if position < self._changed_from:
            return None
        return np.unique(np.array(self._changed[position - self._changed_from :], dtype=np.int64))

    def _forget_log(self) -> None:
        """Make every reader judge all rows again."""
        self._changed_from += len(self._changed) + 1
        self._changed.clear()

    def _log(self, row: int) -> None:
        if len(self._changed) >= _LOG_SIZE:
            del self._changed[: _LOG_SIZE // 2]
            self._changed_from += _LOG_SIZE // 2
        self._changed.append(row)

    def _clear_labels(self, row: int) -> None:
        for key, _ in self._labels[row]:
            if key in self._columns:
                self._columns[key][row] = -1
        self._labels[row] = ()


def _grow_column(column: Int32s, rows: int, fill: int) -> Int32s:
    grown = np.full(rows, fill, dtype=np.int32)
    grown[: len(column)] = column
    return grown
