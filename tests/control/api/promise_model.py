"""What users were promised, written down a second time: a small model of VMs in plain Python, from the guides alone.

It knows what was asked for and what must be refused, with all codes that are right; it does not know where VMs go.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Any

__all__ = ["WANTED", "Fleet", "Gang", "Json", "Known", "Quota", "refusals"]

Json = dict[str, Any]
WANTED = {"start": "running", "stop": "stopped", "pause": "paused", "resume": "running", "restart": "running"}


@dataclass
class Known:
    """A VM as its user knows it."""

    id: str
    project: str
    cores: int
    etag: str
    has_disk: bool = False
    gang: str = ""
    priority: int = 0
    power: str = "running"
    is_protected: bool = False
    may_move: bool = False  # a move was asked for, and nothing came to rest since


@dataclass
class Quota:
    """What a project may have. Who has more when it is lowered keeps it, and gets nothing more."""

    cores: float = inf
    had: float = 0  # when all was at rest last
    highest: float = inf  # that was allowed since then

    def allow(self, cores: float) -> None:
        """Change what is allowed."""
        self.cores = cores
        self.highest = max(self.highest, cores)

    def check(self, has: float) -> None:
        """Compare with what the project has while all is at rest."""
        assert has <= max(self.highest, self.had), f"it has {has} cores: {self}"
        self.had, self.highest = has, self.cores


@dataclass
class Gang:
    """Members are placed together: until so many were there at once, none of them is."""

    least: int
    members: set[str] = field(default_factory=set)
    was_whole: bool = False

    def note(self, members: set[str]) -> None:
        """Take in who is a member now and wants to run."""
        self.was_whole = len(members) >= self.least or (self.was_whole and bool(members))
        self.members = members


@dataclass
class Fleet:
    """What operators said of hosts. ``shut`` are those that were closed ever since all was at rest last."""

    cordoned: set[str] = field(default_factory=set)
    draining: set[str] = field(default_factory=set)
    silent: set[str] = field(default_factory=set)
    shut: set[str] = field(default_factory=set)
    places: dict[str, set[str]] = field(default_factory=dict)  # VM to its hosts, while all was at rest last

    @property
    def closed(self) -> set[str]:
        """Return the hosts to which no VM may come."""
        return self.cordoned | self.draining | self.silent

    def say(self, which: set[str], host: str, *, is_so: bool) -> None:
        """Take in what an operator says, or what became of a host."""
        (which.add if is_so else which.discard)(host)
        self.shut &= self.closed

    def look(self, places: dict[str, set[str]]) -> None:
        """Compare where VMs are, or go, with where they were: nobody came to a host that was closed all the time."""
        for vm, hosts in places.items():
            new = hosts - self.places.get(vm, set())
            assert not new & self.shut, f"{vm} came to {new}, but {self.shut} are closed"
        self.places = places
        self.shut = set(self.closed)


def refusals(known: Known, seen: Json, verb: str, target: str = "") -> set[str]:
    """Return every code with which a wish may be refused now, as a user sees the VM; empty: it must be taken.

    ``seen`` is what the service tells of the VM while nothing moves. A wish for what is wanted already is always taken,
    but that to resume a VM that waits for a place.
    """
    if verb == "delete":
        return {"deletion_protected"} if known.is_protected and known.power != "absent" else set()
    if known.power == "absent":
        return {"wrong_state"}
    is_placed = seen["host"] is not None and seen["state"] != "pending"
    found: set[str] = set()
    if seen["state"] == "migrating" and WANTED.get(verb) != known.power:
        found.add("migrating")
    if verb == "pause" and known.power != "paused" and not (known.power == "running" and is_placed):
        found.add("wrong_state")
    if verb == "resume" and (known.power == "stopped" or (known.power == "running" and not is_placed)):
        found.add("wrong_state")
    if verb == "restart" and seen["state"] == "migrating":
        found.add("migrating")
    if verb == "restart" and not (known.power == "running" and is_placed):
        found.add("wrong_state")
    if verb == "migrate":
        found |= _why_not_moved(known, seen, is_placed, target)
    return found


def _why_not_moved(known: Known, seen: Json, is_placed: bool, target: str) -> set[str]:
    found: set[str] = set()
    if known.has_disk:
        found.add("not_movable")
    if known.power not in ("running", "stopped") or not is_placed or seen["state"] == "unknown":
        found.add("wrong_state")
    if seen["state"] == "resizing":  # it waits for room to grow
        found.add("migrating")
    if target == "nowhere" or (target and target == seen["host"]):
        found.add("invalid_input")
    return found
