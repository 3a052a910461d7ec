"""The output that a page shows below its commands is what they print.

A test runs the commands of a page and passes what each one printed to ``Page.compare``. A line ``...`` of a page stands
for lines that are left out. A command that prints a table must show it, or some of its lines.

``make pages`` sets ``HOSTLER_REFRESH_PAGES=1`` for these tests: output that is out of date is then replaced in the page
instead of failing the test. Review the changes with ``git diff``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from tests.docs.page_commands import Step, matches_line, steps_of

__all__ = [
    "AGES",
    "EVENT_NUMBERS",
    "IDS",
    "LEFT_OUT",
    "ROOT",
    "SIZES",
    "TIMES",
    "Page",
    "has_table",
    "matches",
    "refreshed",
]

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = "..."

# Parts of output that differ between runs. A page shows those of one run.
AGES = re.compile(r"\b[0-9]+(?:\.[0-9]+)?\s?(?:ns|us|µs|ms|s|m|h|d|days?|hours?|minutes?|seconds?)\b")
EVENT_NUMBERS = re.compile(r"^ *[0-9]+(?=  )")
IDS = re.compile(r"\b(?:h[kjas]_[A-Za-z0-9_]{16,}|[0-9a-f]{32}|(?=[a-z]*[2-7])[a-z2-7]{16})\b")
SIZES = re.compile(r"\b[0-9][0-9,.]*(?= (?:bytes|[KMG]i?B)\b)")
TIMES = re.compile(r"\b[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.]+(?:Z|[+-][0-9:]+)?")

_REFRESH = os.environ.get("HOSTLER_REFRESH_PAGES") == "1"
_HEADINGS = re.compile(r" *[A-Z][A-Z0-9 %()./-]*?  +[A-Z].*")
_PROGRESS = re.compile(r"compiling kernels .*")
# How much of a new output is shown: all of it up to this number of lines, else its first and last lines.
_WHOLE, _HEAD, _TAIL = 14, 6, 2


class Page:
    """A page of the documentation; ``compare`` its output, then ``finish``."""

    def __init__(self, name: str, volatile: Sequence[re.Pattern[str]] = ()) -> None:
        self._path = ROOT / name
        self.text = self._path.read_text()
        self.steps = steps_of(self.text)
        self._volatile = volatile
        self._compared: set[Step] = set()
        self._changes: list[tuple[Step, list[str]]] = []

    def compare(self, step: Step, code: int, printed: str, names: Mapping[str, str] | None = None) -> None:
        """Compare what a command printed with what the page shows; ``names`` are replaced, such as an address."""
        for name, shown in (names or {}).items():
            printed = printed.replace(name, shown)
        lines = [line.rstrip() for line in printed.rstrip().splitlines() if not _PROGRESS.fullmatch(line)]
        assert code == step.code, f"$ {step.command}\n{printed}"
        self._compared.add(step)
        if not step.shown and not has_table(lines):
            return
        if step.shown and matches(step.shown, lines, self._volatile):
            return
        assert _REFRESH, (
            f"{self._path.name}:{step.first}: run `make pages`: the page does not show what this prints\n"
            f"$ {step.command}\n{printed}\n-- the page shows:\n" + "\n".join(step.shown)
        )
        new = refreshed(step.shown, lines)
        assert matches(new, lines, self._volatile), f"edit the page by hand: lines of its middle part moved: {new}"
        self._changes.append((step, new))

    def finish(self, steps: Sequence[Step] | None = None) -> None:
        """Check that no output was left out, of the page or of some steps, and write what was refreshed."""
        steps = self.steps if steps is None else steps
        rest = [step.command for step in steps if step.shown and step not in self._compared]
        assert not rest, f"{self._path.name} shows output of commands that the test did not run: {rest}"
        if self._changes:
            lines = self.text.splitlines()
            for step, shown in sorted(self._changes, key=lambda change: -change[0].first):
                lines[step.first : step.end] = shown
            self._path.write_text("\n".join(lines) + "\n")


def has_table(lines: Sequence[str]) -> bool:
    """Return whether an output has a table: headings in capitals in two or more columns, and a row below them."""
    return any(_HEADINGS.fullmatch(line) and below.strip() for line, below in pairwise(lines))


def matches(shown: Sequence[str], printed: Sequence[str], volatile: Sequence[re.Pattern[str]] = ()) -> bool:
    """Return whether lines are shown as printed, apart from lines that are left out and parts that are volatile."""
    *groups, last = _groups(shown)
    at = 0
    for number, group in enumerate(groups):
        starts = [0] if number == 0 else range(at, len(printed) + 1)
        found = next((start for start in starts if _is_at(group, printed, start, volatile)), None)
        if found is None:
            return False
        at = found + len(group)
    start = len(printed) - len(last)
    return start >= at and (bool(groups) or start == 0) and _is_at(last, printed, start, volatile)


def refreshed(shown: Sequence[str], printed: Sequence[str]) -> list[str]:
    """Return what a page is to show: the lines that it showed before, as they are printed now."""
    *groups, last = _groups(shown)
    if not any(groups) and not last:
        is_short = len(printed) <= _WHOLE
        return list(printed) if is_short else [*printed[:_HEAD], LEFT_OUT, *printed[-_TAIL:]]
    if not groups:
        return list(printed)
    first, *middle = groups
    new = list(printed[: len(first)])
    for group in middle:
        new += [LEFT_OUT, *(_line_like(line, printed) for line in group)]
    return [*new, LEFT_OUT, *printed[len(printed) - len(last) :]]


def _groups(shown: Sequence[str]) -> Iterator[list[str]]:
    """Iterate over the groups of lines between those that are left out."""
    group: list[str] = []
    for line in shown:
        if line == LEFT_OUT:
            yield group
            group = []
        else:
            group.append(line)
    yield group


def _is_at(group: Sequence[str], printed: Sequence[str], start: int, volatile: Sequence[re.Pattern[str]]) -> bool:
    there = printed[start : start + len(group)]
    return len(there) == len(group) and all(_is_same(*pair, volatile) for pair in zip(group, there, strict=True))


def _is_same(shown: str, printed: str, volatile: Sequence[re.Pattern[str]]) -> bool:
    if not volatile:
        return shown == printed
    for pattern in volatile:
        shown, printed = pattern.sub("<>", shown), pattern.sub("<>", printed)
    return matches_line(shown, printed)


def _line_like(shown: str, printed: Sequence[str]) -> str:
    """Return the printed line that begins with the same word."""
    word = shown.split()[:1]
    found = next((line for line in printed if line.split()[:1] == word), None)
    assert found is not None, f"no line begins as this one does, so edit the page by hand: {shown}"
    return found
