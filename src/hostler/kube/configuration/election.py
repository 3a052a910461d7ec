"""Validate the names and times of an election, from either file format or from a program.

Both readers call it with the place in the file; ``kube.scheduler`` calls it for settings from elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from hostler.config import Document, invalid, quote
from hostler.config.key_paths import Path
from hostler.errors import InputError
from hostler.kube.settings import Election, SchedulerSettings

__all__ = ["LONGEST_LEASE_S", "SAFE_SHARE", "check_election", "check_election_entry", "longest_safe_bind_s"]

LONGEST_LEASE_S = 3600.0  # until it ends no scheduler takes over, so a longer one would block scheduling
SAFE_SHARE = 0.8  # share of the time between the end of writing and the end of a lease
_SHORTEST_LEASE_S = 1.0  # the API counts a lease in whole seconds
_SHORTEST_RETRY_S = 0.1
_JITTER = 1.2  # pauses between tries are up to this factor longer
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_KEYS = {key: key for key in ("namespace", "name", "lease", "renew", "retry")}


class _Problem(NamedTuple):
    field: str  # empty: several fields together
    text: str
    hint: str


def check_election(settings: SchedulerSettings) -> None:
    """Reject settings with which two schedulers could write at once, or none ever would."""
    election = settings.election
    if not election.is_on:
        return
    for problem in _problems(election, _KEYS):
        raise InputError(f"election {problem.field} {problem.text}".replace("  ", " "), hint=problem.hint)
    limit = longest_safe_bind_s(election)
    if not 0 < settings.limits.bind_timeout_s < limit:
        raise InputError(
            f"a bind that may take {settings.limits.bind_timeout_s:g} s can outlive the lease of its sender",
            hint=f"keep it below lease minus renew, {limit:g} s",
        )
    for extender in settings.extenders:
        if extender.bind_verb and not 0 < extender.timeout_s < limit:
            raise InputError(
                f"a bind by extender {extender.url_prefix}, which may take {extender.timeout_s:g} s, "
                "can outlive the lease of the scheduler",
                hint=f"keep its time-out below lease minus renew, {limit:g} s",
            )


def check_election_entry(document: Document, path: Path, election: Election, keys: Mapping[str, str]) -> None:
    """Reject an invalid election under ``path`` of a file; ``keys`` are the key names of its format."""
    for problem in _problems(election, keys):
        where = (*path, keys[problem.field]) if problem.field else path
        raise invalid(document, where, problem.text, hint=problem.hint)


def longest_safe_bind_s(election: Election) -> float:
    """Return the longest time a bind may take; after it another scheduler may hold the lease."""
    return election.lease_s - election.renew_s


def _problems(election: Election, keys: Mapping[str, str]) -> Iterable[_Problem]:
    lease, renew, retry = election.lease_s, election.renew_s, election.retry_s
    if not (len(election.namespace) <= 63 and _LABEL.fullmatch(election.namespace)):
        hint = "a namespace has at most 63 lower-case letters, digits and '-'"
        yield _Problem("namespace", _is(election.namespace), hint)
    if not (len(election.name) <= 253 and all(_LABEL.fullmatch(part) for part in election.name.split("."))):
        hint = "a Lease's name has at most 253 lower-case letters, digits, '-' and '.'"
        yield _Problem("name", _is(election.name), hint)
    if not lease >= _SHORTEST_LEASE_S:
        yield _Problem("lease", f"is {lease:g} s", f"at least {_SHORTEST_LEASE_S:g}s: a Lease counts whole seconds")
    if lease > LONGEST_LEASE_S:
        hint = f"at most {LONGEST_LEASE_S:g}s: no other scheduler takes over before it ends; 15s is usual"
        yield _Problem("lease", f"is {lease:g} s", hint)
    if not retry >= _SHORTEST_RETRY_S:
        yield _Problem("retry", f"is {retry:g} s", f"at least {_SHORTEST_RETRY_S:g}s, so as not to press the server")
    if not _JITTER * retry < renew < lease:
        names = f"{_JITTER} {keys['retry']} < {keys['renew']} < {keys['lease']}"
        yield _Problem("", f"must have {names}", "such as 2s, 10s and 15s")


def _is(name: str) -> str:
    return f"is {quote(name)}" if name else "is empty"
