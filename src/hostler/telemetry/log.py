"""The log of a process: one line for each thing that matters, with its time, its level and its numbers.

As text for people, or as JSON for programs. The same message very often in a row is cut short, so that an outage does
not fill a disk; what was left out is counted. Used by the scheduler, the control plane and agents.

Invariant: one call writes one line, and nothing in it moves a cursor or reorders letters. Messages, values and texts of
errors come from strangers, too: names of VMs, output of programs, answers of servers.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Literal, TypeAlias

import msgspec

__all__ = ["QUIET", "Format", "Log"]

Format: TypeAlias = Literal["text", "json"]

_SECOND = 1_000_000_000
_WINDOW_NS = 10 * _SECOND
_MOST = 20  # lines of one message in a window
_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./:,+@%*[]<>()")


class _Burst(msgspec.Struct):
    """How often something was said lately."""

    began: int
    said: int = 0
    left_out: int = 0


class Log:
    """Writes lines. ``verbosity`` 0: what matters; 1: also every bind and rejection; 2: also every fact."""

    def __init__(
        self,
        write: Callable[[str], None] | None,
        *,
        verbosity: int = 0,
        form: Format = "text",
        now: Callable[[], int] = time.time_ns,  # noqa: TID251 - lines bear the time that a clock on the wall shows
    ) -> None:
        self._write = write
        self._verbosity = verbosity if write is not None else -1
        self._form = form
        self._now = now
        self._bursts: dict[tuple[str, str], _Burst] = {}

    @property
    def has_details(self) -> bool:
        """Say whether single binds and rejections are logged."""
        return self._verbosity >= 1

    @property
    def has_facts(self) -> bool:
        """Say whether single facts are logged."""
        return self._verbosity >= 2

    def info(self, message: str, **fields: object) -> None:
        """Log what matters."""
        self._limited("info", message, fields)

    def frequent_info(self, most: int, message: str, /, **fields: object) -> None:
        """Log what matters and comes often: at most ``most`` lines of the message in a window of ten seconds."""
        self._limited("info", message, fields, most)

    def warn(self, message: str, **fields: object) -> None:
        """Log a warning: an operator should look at it."""
        self._limited("warn", message, fields)

    def detail(self, message: str, **fields: object) -> None:
        """Log what matters for one pod."""
        if self.has_details:
            self._line("debug", message, fields, self._now())

    def fact(self, message: str, **fields: object) -> None:
        """Log a fact."""
        if self.has_facts:
            self._line("trace", message, fields, self._now())

    def without_failures(self) -> Log:
        """Return a log that leaves out a line that cannot be written, such as on a full disk, and continues."""
        write = self._write
        if write is None:
            return self

        def write_if_possible(line: str) -> None:
            with suppress(Exception):
                write(line)

        return Log(write_if_possible, verbosity=self._verbosity, form=self._form, now=self._now)

    def report_omissions(self) -> None:
        """Log how much was left out in windows that are over, even if no other line follows."""
        if self._bursts:
            self._sweep(self._now())

    def finish(self) -> None:
        """Log how much was left out; no more lines follow."""
        self._sweep(self._now(), is_end=True)

    def _limited(self, level: str, message: str, fields: dict[str, object], most: int = _MOST) -> None:
        if self._verbosity < 0:
            return
        now = self._now()
        burst = self._bursts.get((level, message))
        if burst is None or _is_over(burst, now):
            self._sweep(now)
            burst = self._bursts[level, message] = _Burst(now)
        burst.said += 1
        if burst.said > most and not self.has_details:
            burst.left_out += 1
            return
        self._line(level, message, fields, now)

    def _sweep(self, now: int, *, is_end: bool = False) -> None:
        """Forget what is over, and log how much of it was left out."""
        over = [(key, one) for key, one in self._bursts.items() if is_end or _is_over(one, now)]
        for key, one in over:
            del self._bursts[key]
            if one.left_out:
                self._line(key[0], f"{key[1]}: so many more lines were left out", {"lines": one.left_out}, now)

    def _line(self, level: str, message: str, fields: dict[str, object], now: int) -> None:
        if self._write is None:
            return
        seconds, rest = divmod(now, _SECOND)
        at = f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest // 1_000_000:03d}Z"
        if self._form == "json":
            line = {"time": at, "level": level, "message": _text(message)} | {
                _text(key): _data(fields[key]) for key in fields
            }
            self._write(_escape_json(msgspec.json.encode(line).decode()))
            return
        words = [f"{_escape_controls(_text(key))}={_word(value)}" for key, value in fields.items()]
        self._write(" ".join([at, f"{level.upper():5}", _escape_controls(_text(message)), *words]))


def _is_over(burst: _Burst, now: int) -> bool:
    """Say whether a window has passed; a clock that was set back ends it too."""
    return not 0 <= now - burst.began < _WINDOW_NS


def _text(value: object) -> str:
    """Return what can be written: a stranger's text may hold halves of characters."""
    return str(value).encode("utf-8", "backslashreplace").decode()


def _escape_controls(text: str) -> str:
    r"""Write what a terminal or an editor would act on as an escape, such as ``\n``, ``\x1b`` or ``\u202e``.

    That is all that ``str.isprintable`` denies: control characters, ANSI escapes by their first letter, separators of
    lines and paragraphs, bidirectional overrides and letters of no width. Letters of all scripts stay as they are.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def _escape_json(text: str) -> str:
    """Do the same inside JSON, as JSON escapes: unprintable letters stand nowhere in it but in strings."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in text)


def _data(value: object) -> object:
    if isinstance(value, float):
        return round(value, 3)
    return value if isinstance(value, bool | int) else _text(value)


def _word(value: object) -> str:
    """Write a value as one word; what is not one stands in quotes, as JSON writes it."""
    text = f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else _text(value)
    if text and _PLAIN.issuperset(text):
        return text
    return _escape_json(msgspec.json.encode(text).decode())


QUIET = Log(None)
