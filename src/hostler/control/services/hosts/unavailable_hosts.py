"""Why hosts take no VMs, with what to do about it.

The engine has one word for it: a silent, dead, draining or unregistered host is cordoned, because a decision needs no
more. Users need the real cause and its remedy. ``read`` reads the rows; everything else is pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

import msgspec

from hostler.control.fleet.hosts.host_body import HostBody, is_unregistered, read_body
from hostler.control.store import Connection
from hostler.control.store.rows import hosts
from hostler.control.store.rows.hosts import ClosedRow, HostRow
from hostler.control.vms.reasons import NOT_TAKING, is_cordon
from hostler.model import Cure, CureChange, Explanation, Failure, GangAdvice, HostVerdict, Reason, ReasonCount
from hostler.model.decisions import ChangeKind

__all__ = [
    "UnavailableCause",
    "UnavailableHosts",
    "count_unavailable_reasons",
    "explain_unavailable_host",
    "explain_unavailable_hosts",
    "out_of_reach",
    "read",
    "unavailable_hosts_of",
    "with_hosts_left_out",
]  # fmt: skip

_CORDON = "cordon"  # the filter of the engine
_CORDONED = "cordoned"
_replace = msgspec.structs.replace


class UnavailableCause(msgspec.Struct, frozen=True):
    """One reason why a host takes no VMs: a stable code, and its remedy."""

    code: str
    cure: str

    def reason(self) -> Reason:
        """Return it as a reason of a decision."""
        return Reason(_CORDON, self.code)

    def change(self, host: str) -> CureChange:
        """Return its remedy as a part of a cure."""
        kind: ChangeKind = "uncordon" if self.code == _CORDONED else "other"
        return CureChange(kind=kind, subject=host, text=self.cure.format(host=host), relative=1.0)


UnavailableHosts = Mapping[str, tuple[UnavailableCause, ...]]
"""What keeps VMs from hosts, by the name of the host, the gravest first."""

_BY_STATE = {
    "joined": UnavailableCause("never_registered", "start the agent of {host}: it has joined and never registered"),
    "silent": UnavailableCause(
        "silent", "bring {host} back: it is silent, so check its network, its agent and the machine"
    ),
    "offline": UnavailableCause("offline", "start the agent of {host} again: an operator forced it offline"),
    "fenced": UnavailableCause("fenced", "repair {host} and start its agent: it was proved dead"),
}
_LOCKED_OUT = UnavailableCause(
    "locked_out",
    "let {host} join again: its credential was revoked, so start its agent with what "
    "hostler token create --host {host} gives",
)
_SINCE_RESTORE = UnavailableCause(
    "not_registered_since_restore", "start the agent of {host}: it has not registered since the restore"
)
_DRAINING = UnavailableCause("draining", "end the draining of {host}: hostler host undrain {host}")
_BY_HAND = UnavailableCause(_CORDONED, "uncordon {host}: hostler host uncordon {host}")
_LEFT_OUT = UnavailableCause(_CORDONED, "plan with {host}")
_UNCOUNTED = UnavailableCause("inventory_unknown", "look at {host}: its agent does not know all that it has")
_UNHEARD = ("silent", "offline")
_ITSELF = ("silent", "fenced")  # something is the matter with the host itself: joining again does not end that


def read(connection: Connection) -> UnavailableHosts:
    """Return the unavailable hosts with their causes."""
    rows = hosts.closed(connection)
    unheard = [row.name for row in rows if row.state in _BY_STATE]
    found = hosts.find_by_names(connection, unheard)
    return unavailable_hosts_of(rows, locked_out={name for name, row in found.items() if read_body(row).is_locked_out})


def unavailable_hosts_of(rows: Iterable[ClosedRow], *, locked_out: Collection[str] = ()) -> UnavailableHosts:
    """Return the causes of unavailable hosts by their rows; ``locked_out`` are hosts that need a new token."""
    return {row.name: tuple(_causes(row, is_locked_out=row.name in locked_out)) for row in rows}


def out_of_reach(row: HostRow, body: HostBody) -> str:
    """Return what brings back a host whose agent is silent or rejected; empty if it is well.

    A host that waits after a restore has a trouble of its own.
    """
    found = [_LOCKED_OUT] if body.is_locked_out else []
    is_by_state = row.state in _BY_STATE and not is_unregistered(row)
    if is_by_state and (not body.is_locked_out or row.state in _ITSELF):
        found.append(_BY_STATE[row.state])
    texts = [cause.cure.format(host=row.name) for cause in found]
    if is_by_state and row.state == "silent":
        texts.append(f"if it is dead, switch it off, then hostler host confirm-dead {row.name}")
    return "; ".join(texts)


def _causes(row: ClosedRow, *, is_locked_out: bool) -> Iterable[UnavailableCause]:
    if is_locked_out:
        yield _LOCKED_OUT
    if not is_locked_out or row.state in _ITSELF:
        yield from _by_state(row)
    if row.is_draining:
        yield _DRAINING
    if row.is_cordoned:
        yield _BY_HAND


def _by_state(row: ClosedRow) -> Iterable[UnavailableCause]:
    if row.state in _UNHEARD and not row.agent:
        yield _SINCE_RESTORE
    elif row.state in _BY_STATE:
        yield _BY_STATE[row.state]


def explain_unavailable_hosts(found: Explanation, unavailable: UnavailableHosts) -> Explanation:
    """Return an explanation with the causes of unavailable hosts, and their remedies."""
    closed = [one.host for one in found.verdicts if any(map(_is_cordon, one.failures))]
    if not closed:
        return found
    first = Counter(
        _causes_of(one.host, unavailable)[0].reason()
        for one in found.verdicts
        if one.failures and _is_cordon(one.failures[0])
    )
    kept = [count for count in found.decision.reasons if not is_cordon(count.reason)]
    counts = (*kept, *(ReasonCount(reason, hosts) for reason, hosts in first.items()))
    return _replace(
        found,
        decision=_replace(found.decision, reasons=_sorted_counts(counts)),
        verdicts=tuple(explain_unavailable_host(one, unavailable) for one in found.verdicts),
        cure=None if found.cure is None else _cure(found.cure, unavailable),
        gang=None if found.gang is None else _gang(found.gang, closed, unavailable),
    )


def count_unavailable_reasons(
    counts: Iterable[ReasonCount], closed: Collection[str], unavailable: UnavailableHosts
) -> tuple[ReasonCount, ...]:
    """Return how many hosts reject a VM for which reason; ``closed`` are the hosts cordoned for the engine.

    A count does not name its hosts. If some closed hosts were rejected earlier for another reason, and the closed hosts
    have several causes, the reason only says that they take no VMs.
    """
    result: list[ReasonCount] = []
    for count in counts:
        if not is_cordon(count.reason):
            result.append(count)
            continue
        causes = Counter(_causes_of(host, unavailable)[0].reason() for host in closed)
        if len(causes) == 1:
            result.append(ReasonCount(next(iter(causes)), count.hosts))
        elif causes.total() == count.hosts:
            result += [ReasonCount(reason, hosts) for reason, hosts in causes.items()]
        else:
            result.append(ReasonCount(NOT_TAKING, count.hosts))
    return _sorted_counts(result)


def with_hosts_left_out(unavailable: UnavailableHosts, names: Iterable[str]) -> UnavailableHosts:
    """Return the causes of unavailable hosts, plus the hosts that a what-if leaves out."""
    return {**unavailable, **dict.fromkeys(names, (_LEFT_OUT,))}


def _causes_of(host: str, unavailable: UnavailableHosts) -> tuple[UnavailableCause, ...]:
    """Return the causes of a host that is cordoned for the engine. Without a row, the cause is in its reports."""
    return unavailable.get(host) or (_UNCOUNTED,)


def _is_cordon(failure: Failure) -> bool:
    return is_cordon(failure.reason)


def explain_unavailable_host(verdict: HostVerdict, unavailable: UnavailableHosts) -> HostVerdict:
    """Return a verdict with the causes why its host takes no VMs."""
    failures: list[Failure] = []
    for one in verdict.failures:
        causes = _causes_of(verdict.host, unavailable) if _is_cordon(one) else ()
        failures += [_replace(one, reason=cause.reason()) for cause in causes] or [one]
    return _replace(verdict, failures=tuple(failures))


def _cure(cure: Cure, unavailable: UnavailableHosts) -> Cure:
    changes: list[CureChange] = []
    for one in cure.changes:
        is_cordon = one.kind == "uncordon"
        changes += [cause.change(cure.host) for cause in _causes_of(cure.host, unavailable)] if is_cordon else [one]
    return _replace(cure, changes=tuple(changes))


def _gang(advice: GangAdvice, closed: Collection[str], unavailable: UnavailableHosts) -> GangAdvice:
    members = (
        _replace(one, reasons=count_unavailable_reasons(one.reasons, closed, unavailable)) for one in advice.members
    )
    return _replace(advice, members=tuple(members))


def _sorted_counts(counts: Iterable[ReasonCount]) -> tuple[ReasonCount, ...]:
    def key(count: ReasonCount) -> tuple[int, str, str, str]:
        return -count.hosts, count.reason.plugin, count.reason.code, count.reason.subject

    return tuple(sorted(counts, key=key))
