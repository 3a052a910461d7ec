"""A journal as a table with a summary, or as data; all of it, or what is about a guest or of some kinds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

import msgspec

from hostler.cli.journal_guests import is_wall_time
from hostler.cli.journal_lines import Line, Teller
from hostler.cli.terminal import Column, print_table, printable, say
from hostler.cli.wording import plural
from hostler.config.times import format_time
from hostler.engine.journal import Applied, Journal, Saved, Stepped

__all__ = ["journal_as_data", "print_journal"]

_MS = 1_000_000
_SECOND = 1_000 * _MS


def print_journal(journal: Journal, guest: str, kinds: Collection[str]) -> None:
    """Write a journal: who made it, what happened, and how often what did."""
    header = journal.header
    every, is_wanted = _told(journal, guest, kinds)
    shown = [line for line in every if is_wanted(line)]
    policies = ", ".join(policy.name for policy in header.policies)
    redacted = ", redacted" if header.redacted else ""
    say(printable(f"Made by hostler {header.version}, policies {policies}, seed {header.seed}{redacted}."))
    say()
    if shown:
        _print_lines(shown, header.clock_start)
        say()
    _print_summary(journal, every, shown)


def journal_as_data(journal: Journal, guest: str, kinds: Collection[str]) -> dict[str, object]:
    """Return the whole journal, or of its entries those that are wanted, each with its number."""
    every, is_wanted = _told(journal, guest, kinds)
    lines: dict[int, list[bool]] = {}
    for line in every:
        lines.setdefault(line.entry, []).append(is_wanted(line))
    entries = []
    for number, entry in enumerate(journal.entries, 1):
        wanted = lines[number]
        if not any(wanted):
            continue
        if isinstance(entry, Stepped) and entry.actions:
            actions = tuple(action for action, is_one in zip(entry.actions, wanted, strict=True) if is_one)
            entry = msgspec.structs.replace(entry, actions=actions)
        data: dict[str, Any] = msgspec.to_builtins(entry)
        entries.append({"number": number, **data})
    return {"header": msgspec.to_builtins(journal.header), "entries": entries, "torn": journal.torn}


def _told(journal: Journal, guest: str, kinds: Collection[str]) -> tuple[list[Line], Callable[[Line], bool]]:
    """Return all lines, and what says of each whether it is wanted."""
    teller = Teller(journal)
    uids = teller.uids_of(guest) if guest else frozenset()

    def is_wanted(line: Line) -> bool:
        return (not kinds or line.kind in kinds) and (not guest or not uids.isdisjoint(line.uids))

    return list(teller.lines()), is_wanted


def _print_lines(lines: list[Line], start: int) -> None:
    has_dates = is_wall_time(start)
    columns: list[Column] = [("ENTRY", "right"), ("AFTER", "right")]
    columns += [("TIME", "left")] if has_dates else []
    columns += [("KIND", "left"), ("WHO", "left"), ("WHERE", "left"), ("WHY", "left")]
    rows = []
    for line in lines:
        times = [_after(line.at - start), *([_date(line.at)] if has_dates else [])]
        rows.append([str(line.entry), *times, line.kind, line.who or "-", line.where or "-", line.why])
    print_table(columns, rows)


def _print_summary(journal: Journal, every: list[Line], shown: list[Line]) -> None:
    counts = Counter(type(entry) for entry in journal.entries)
    took = _after(every[-1].at - journal.header.clock_start).lstrip("+") if every else "0s"
    parts = [plural(counts[Applied], "fact"), plural(counts[Stepped], "step")]
    parts += [plural(counts[Saved], "checkpoint")] if counts[Saved] else []
    say(f"{plural(len(journal.entries), 'entry')} in {took}: {', '.join(parts)}.")
    kinds = Counter(line.kind for line in shown)
    told = ", ".join(f"{kind} {number:,}" for kind, number in kinds.most_common())
    if len(shown) < len(every):
        say(f"Shown are {len(shown):,} of {plural(len(every), 'line')}{f': {told}' if told else ''}.")
    elif told:
        say(f"By kind: {told}.")


def _after(passed: int) -> str:
    """Write how long after the start something was, so that it can be read at a glance."""
    if passed < 60 * _SECOND:
        return f"{passed / _SECOND:+.3f}s"
    minutes, seconds = divmod(passed // _SECOND, 60)
    hours, minutes = divmod(minutes, 60)
    return f"+{hours}h{minutes:02}m{seconds:02}s" if hours else f"+{minutes}m{seconds:02}s"


def _date(at: int) -> str:
    """Write a time to the millisecond; all of them are as long, so that they stand below each other."""
    return f"{format_time(at - at % _SECOND).removesuffix('Z')}.{at % _SECOND // _MS:03}Z"
