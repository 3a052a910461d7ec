"""Rate limits: token buckets for callers, and a lock-out for addresses that fail to authenticate.

Pure: times are passed in (nanoseconds of a monotonic clock) and nothing waits. A bucket is one number: the time up to
which its calls are paid for. Memory is bounded; the least recently used entry is dropped first.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from typing import Generic, TypeVar

import msgspec

from hostler.control.access.errors import TooManyRequestsError
from hostler.errors import InputError

__all__ = [
    "OFF",
    "FailureGuard",
    "LeastRecentlyUsed",
    "Limiter",
    "Rate",
    "RateLimits",
    "address_block",
    "parse_rate",
    "wait_s",
]

MOST_KEPT = 10_000
_NS = 1_000_000_000
_CHANGE_BYTES = 4096  # a VM without rules about others is far smaller
V = TypeVar("V")


class Rate(msgspec.Struct, frozen=True):
    """``count`` calls at once, and as many again in each ``per_s`` seconds after that.

    So no more than ``count * (1 + w / per_s)`` calls are accepted in any ``w`` seconds.
    """

    count: int
    per_s: int = 60

    @property
    def interval_ns(self) -> int:
        """Return the cost of one call, rounded up so that the budget is never exceeded."""
        return -(-self.per_s * _NS // self.count)


class RateLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Rates for one principal, for all of one project, and for failures of one address; None switches a limit off."""

    changes: Rate | None = Rate(300)
    reads: Rate | None = Rate(3000)
    project_changes: Rate | None = Rate(600)
    project_reads: Rate | None = Rate(6000)
    failures: Rate | None = Rate(10)
    first_lockout_s: int = 5
    longest_lockout_s: int = 300


OFF = RateLimits(changes=None, reads=None, project_changes=None, project_reads=None, failures=None)


def parse_rate(text: str) -> Rate | None:
    """Read ``300/60`` (calls per seconds) or ``off``; InputError."""
    if text == "off":
        return None
    count, _, per_s = text.partition("/")
    try:
        rate = Rate(int(count), int(per_s or "60"))
    except ValueError:
        rate = Rate(0, 0)
    if not (0 < rate.count <= 10**9 and 0 < rate.per_s <= 86_400):
        raise InputError(f"{text!r} is not a rate", hint="write calls per seconds, such as 300/60, or off")
    return rate


def wait_s(wait_ns: int) -> int:
    """Return whole seconds for Retry-After, rounded up."""
    return -(-wait_ns // _NS)


class LeastRecentlyUsed(Generic[V]):
    """A dictionary of bounded size. The least recently used entry is dropped first."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._most = most
        self._kept: OrderedDict[str, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, name: str) -> bool:
        return name in self._kept

    def get(self, name: str) -> V | None:
        """Return the value of a name."""
        found = self._kept.get(name)
        if found is not None:
            self._kept.move_to_end(name)
        return found

    def put(self, name: str, value: V) -> None:
        """Set the value of a name."""
        self._kept[name] = value
        self._kept.move_to_end(name)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def drop(self, name: str) -> None:
        """Remove a name, if it is there."""
        self._kept.pop(name, None)


class Limiter:
    """Counts the calls of principals and of projects, changes and reads apart.

    A principal of one project counts for that project too, so more keys do not raise its limit. A principal of all
    projects counts for none: an administrator's calls use no project's share.
    """

    def __init__(self, limits: RateLimits | None = None, *, most: int = MOST_KEPT) -> None:
        limits = limits or RateLimits()
        self._keys = {True: _Buckets(limits.changes, most), False: _Buckets(limits.reads, most)}
        self._projects = {True: _Buckets(limits.project_changes, most), False: _Buckets(limits.project_reads, most)}

    def take(self, principal: str, now_ns: int, *, is_change: bool) -> int:
        """Count one call and return 0. If the limit is reached, count nothing and return the seconds to wait."""
        return self._keys[is_change].take(principal, now_ns)

    def check(self, principal: str, now_ns: int, *, is_change: bool, project: str = "") -> None:
        """Count one call of a principal and of its project; TooManyRequestsError."""
        wait = self.take(principal, now_ns, is_change=is_change)
        if wait:
            what = "changes" if is_change else "reads"
            raise TooManyRequestsError(f"more {what} than one key may send", retry_after_s=wait)
        self._check_project(project, now_ns, is_change=is_change)

    def check_size(self, project: str, size_bytes: int, now_ns: int) -> None:
        """Count a large change of a project as several: one for every 4 KiB after the first; TooManyRequestsError."""
        self._check_project(project, now_ns, is_change=True, count=size_bytes // _CHANGE_BYTES)

    def _check_project(self, project: str, now_ns: int, *, is_change: bool, count: int = 1) -> None:
        wait = self._projects[is_change].take(project, now_ns, count) if project and count else 0
        if wait:
            what = "changes" if is_change else "reads"
            raise TooManyRequestsError(
                f"more {what} than the keys of project {project} may send together", retry_after_s=wait
            )


class _Buckets:
    """A bucket for each name, all of one rate."""

    def __init__(self, rate: Rate | None, most: int) -> None:
        self._rate = rate
        self._paid: LeastRecentlyUsed[int] = LeastRecentlyUsed(most)

    def take(self, name: str, now_ns: int, count: int = 1) -> int:
        """Count calls and return 0. If the limit is reached, count nothing and return the seconds to wait."""
        if self._rate is None:
            return 0
        until_ns, wait_ns = _take(self._rate, self._paid.get(name), now_ns, min(count, self._rate.count))
        self._paid.put(name, until_ns)
        return wait_s(wait_ns)


class _Failures(msgspec.Struct):
    paid_ns: int | None = None
    strikes: int = 0
    locked_ns: int = 0  # until then


class FailureGuard:
    """Locks out addresses that keep failing: for 5 s, 10 s, … 300 s. A quiet time of that length resets it."""

    def __init__(self, limits: RateLimits | None = None, *, most: int = MOST_KEPT) -> None:
        self._limits = limits or RateLimits()
        self._kept: LeastRecentlyUsed[_Failures] = LeastRecentlyUsed(most)

    def retry_after_s(self, address: str, now_ns: int) -> int:
        """Return how long an address is locked out, 0 if it is not."""
        found = self._kept.get(address_block(address))
        wait_ns = 0 if found is None else found.locked_ns - now_ns
        # More than the longest lock-out: the clock was set back, so the lock-out is dropped.
        return wait_s(wait_ns) if 0 < wait_ns <= self._limits.longest_lockout_s * _NS else 0

    def check(self, address: str, now_ns: int) -> None:
        """Reject an address that is locked out; TooManyRequestsError."""
        wait = self.retry_after_s(address, now_ns)
        if wait:
            raise TooManyRequestsError("too many failed authentications from this address", retry_after_s=wait)

    def note_failure(self, address: str, now_ns: int) -> None:
        """Count a failed authentication. Beyond the rate the address is locked out, each time for longer."""
        rate = self._limits.failures
        if rate is None:
            return
        place = address_block(address)
        found = self._kept.get(place) or _Failures()
        if now_ns > found.locked_ns + self._limits.longest_lockout_s * _NS:
            found.strikes = 0
        found.paid_ns, wait_ns = _take(rate, found.paid_ns, now_ns)
        if wait_ns:
            lockout_s = min(self._limits.first_lockout_s << min(found.strikes, 20), self._limits.longest_lockout_s)
            found.locked_ns = max(found.locked_ns, now_ns + lockout_s * _NS)
            found.strikes += 1
        self._kept.put(place, found)


def _take(rate: Rate, paid_ns: int | None, now_ns: int, count: int = 1) -> tuple[int, int]:
    """Return until when calls are paid for after ``count`` more, and 0; or the old value and how long to wait."""
    interval = rate.interval_ns
    paid = now_ns if paid_ns is None else min(max(paid_ns, now_ns), now_ns + rate.count * interval)
    room = (rate.count - count) * interval
    if paid - now_ns > room:
        return paid, paid - now_ns - room
    return paid + count * interval, 0


def address_block(address: str) -> str:
    """Return what counts as one address: for IPv6 the /64 network, because one customer usually has all of it."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if found.version == 4:
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(found) >> 64 << 64, 64)))
