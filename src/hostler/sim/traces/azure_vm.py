"""Azure's VM arrivals of 2017 in bins of 300 s, in the form made for "Generating Complex, Realistic Cloud Workloads".

Two files are read together: the flavours (``v1.dev.txt``) and the lifetimes (``v1.dev.c2100000.txt``; the number is the
second at which watching ended). A line is a time and entries with ``|`` behind each batch; a batch is a tenant. Beside
them are ``flav_map.txt`` (cores, GB and a letter) and ``v1.interval_map.txt`` (lifetime in seconds and its bin). A
lifetime is known by its bin only: the mean of the bin counts, and half a bin of arrival (150 s) for the shortest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hostler.config import quote
from hostler.errors import InputError
from hostler.model import Amounts, GuestSpec, parse_amounts
from hostler.sim.traces.demand import with_chosen_hosts
from hostler.sim.traces.files import decode_text, read_first_bytes, read_unpacked
from hostler.sim.traces.options import TraceOptions
from hostler.sim.workload import FOREVER, Workload, numbered_names

__all__ = ["read_azure_vm", "recognizes_azure_vm"]

_LINE = re.compile(rb"[0-9]+ (?:(?:[a-z]|[UC][0-9]+|\|),?)+")
_LIFETIMES = re.compile(r"(?P<stem>.+)\.c(?P<end>[0-9]+)\.txt(?:\.gz)?")
_FLAVOURS = re.compile(r"(?P<stem>.+)\.txt(?:\.gz)?")
_LIFETIME = re.compile(r"(?P<kind>[UC])(?P<bin>[0-9]{1,6})")
_BIN_S = 300
_MOST_S = 2**32  # of a time in seconds
_SECOND_NS = 10**9
_BATCH_END = "|"
_USUAL_HOST = (64_000, 512 * 2**30)


def recognizes_azure_vm(path: Path) -> bool:
    """Say whether a file has the lines of this format."""
    line = read_first_bytes(path).split(b"\n", 1)[0]
    return bool(_LINE.match(line[:64])) and b"|" in line


class _Entry(NamedTuple):
    line: int
    second: int
    batch: int
    text: str


def read_azure_vm(path: Path, options: TraceOptions) -> Workload:
    """Read flavours and lifetimes together, whichever of the two files is named."""
    flavours_at, lifetimes_at, edge = _pair(path)
    sizes = _flavours(_beside(path.parent, "flav_map.txt"))
    seconds_of = _intervals(_interval_map(path.parent, flavours_at))
    names: list[int] = []
    specs: dict[GuestSpec, int] = {}
    arrivals: list[int] = []
    runs: list[int] = []
    last = 0
    pairs = zip(_entries(flavours_at), _entries(lifetimes_at), strict=False)
    for one, other in pairs:
        if one[:3] != other[:3]:
            raise InputError(
                f"{lifetimes_at}:{other.line}: its batches differ from those of {flavours_at.name}",
                hint="both files come from one source",
            )
        if one.text not in sizes:
            raise InputError(
                f"{flavours_at}:{one.line}: there is no flavour {quote(one.text)}", hint="flav_map.txt lists them"
            )
        tenant = f"batch-{one.batch}" if options.tenants else ""
        spec = GuestSpec(requests=sizes[one.text], tenant=tenant)
        names.append(specs.setdefault(spec, len(specs)))
        arrivals.append(one.second)
        runs.append(_runs(other, lifetimes_at, seconds_of))
        last = one.second
    _refuse_rest(flavours_at, lifetimes_at, len(names))
    end = max(edge, last + _BIN_S)
    arrives = np.array(arrivals, dtype=np.int64)
    lasts = np.array(runs, dtype=np.int64)
    if options.censored == "end":
        lasts = np.where(lasts == FOREVER, end - arrives, lasts)
    workload = Workload(
        name=flavours_at.name.split(".txt")[0],
        hosts=(),
        specs=tuple(specs),
        spec_of=np.array(names, dtype=np.int64),
        names=numbered_names("vm", len(names)),
        arrives_ns=arrives * _SECOND_NS,
        runs_ns=np.where(lasts == FOREVER, FOREVER, lasts * _SECOND_NS),
    )
    return with_chosen_hosts(workload, options, cpu_milli=_USUAL_HOST[0], memory_bytes=_USUAL_HOST[1])


def _pair(path: Path) -> tuple[Path, Path, int]:
    """Find the other one of the two files, and the second at which watching ended."""
    folder = path.parent
    if match := _LIFETIMES.fullmatch(path.name):
        return _beside(folder, f"{match['stem']}.txt"), path, int(match["end"])
    match = _FLAVOURS.fullmatch(path.name)
    stem = match["stem"] if match else path.name
    for other in sorted(folder.iterdir()) if folder.is_dir() else ():
        found = _LIFETIMES.fullmatch(other.name)
        if found and found["stem"] == stem:
            return path, other, int(found["end"])
    raise InputError(f"{path}: there is no file of lifetimes beside it", hint=f"it is called {stem}.cSECONDS.txt")


def _beside(folder: Path, name: str) -> Path:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise InputError(f"{folder / name}: there is no such file", hint="this format is read from several files")


def _interval_map(folder: Path, flavours_at: Path) -> Path:
    return _beside(folder, f"{flavours_at.name.split('.')[0]}.interval_map.txt")


def _lines(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield the number of a line and its two words."""
    for number, line in enumerate(decode_text(read_unpacked(path), path).splitlines(), 1):
        if not line.strip():
            continue
        first, _, second = line.partition(" ")
        if not second:
            raise InputError(f"{path}:{number}: the line has not two words", hint="is the file truncated?")
        yield number, first, second


def _entries(path: Path) -> Iterator[_Entry]:
    """Yield the entries of a file with their times; batches are counted through."""
    batch, before = 0, -1
    for number, first, rest in _lines(path):
        second = _whole(first, path, number, "the time")
        if second <= before:
            raise InputError(
                f"{path}:{number}: the time is not later than in the line before", hint="lines are in order of time"
            )
        before = second
        words = rest.rstrip(",").split(",")
        if words[-1] != _BATCH_END:
            raise InputError(f"{path}:{number}: the last batch has no end", hint="is the file truncated?")
        for word in words:
            if word == _BATCH_END:
                batch += 1
            else:
                yield _Entry(number, second, batch, word)


def _refuse_rest(flavours_at: Path, lifetimes_at: Path, count: int) -> None:
    """Reject two files with different numbers of entries, or without any."""
    sizes = [sum(1 for _ in _entries(path)) for path in (flavours_at, lifetimes_at)]
    if sizes[0] != sizes[1]:
        raise InputError(
            f"{flavours_at} has {sizes[0]:,} guests, {lifetimes_at} has {sizes[1]:,}", hint="is one of them truncated?"
        )
    if not count:
        raise InputError(f"{flavours_at}: there are no guests in it", hint="a trace has at least one")


def _runs(entry: _Entry, path: Path, seconds_of: Mapping[int, int]) -> int:
    match = _LIFETIME.fullmatch(entry.text)
    if match is None:
        raise InputError(f"{path}:{entry.line}: {quote(entry.text)} is not a lifetime", hint="such as U15 or C46")
    if match["kind"] == "C":
        return FOREVER
    if int(match["bin"]) not in seconds_of:
        raise InputError(
            f"{path}:{entry.line}: there is no bin {match['bin']} of lifetimes", hint="its interval_map.txt lists them"
        )
    return seconds_of[int(match["bin"])]


def _flavours(path: Path) -> dict[str, Amounts]:
    """Read cores and GB of each flavour by its letter."""
    found: dict[str, Amounts] = {}
    for number, size, letter in _lines(path):
        cores, _, memory = size.partition(",")
        try:
            found[letter] = parse_amounts({"cpu": cores, "memory": f"{memory}Gi"})
        except InputError as error:
            raise type(error)(f"{path}:{number}: {error.message}", hint=error.hint) from None
    return found


def _intervals(path: Path) -> dict[int, int]:
    """Return the mean lifetime of each bin in seconds."""
    found: dict[int, list[int]] = {}
    for number, seconds, bin_number in _lines(path):
        number_of = _whole(bin_number, path, number, "the bin")
        found.setdefault(number_of, []).append(_whole(seconds, path, number, "the lifetime"))
    return {number: max(sum(values) // len(values), _BIN_S // 2) for number, values in found.items()}


def _whole(text: str, path: Path, line: int, what: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text[:12]) > _MOST_S or len(text) > 12:
        raise InputError(f"{path}:{line}: {what} is {quote(text)}, not a whole number", hint="is the file damaged?")
    return int(text)
