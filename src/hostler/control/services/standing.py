"""Why hosts take no VMs, in words that somebody can act on.

The engine has one word for it: a host that is silent, proved dead, drained or not registered is cordoned, since that is
all a decision needs. Whoever reads a decision wants to know which of these it is, and what would end it. ``read`` looks
at the rows; everything else is pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

import msgspec

from hostler.control.fleet.hosts import HostBody, is_unregistered, read_body
from hostler.control.store import Connection, hosts
from hostler.control.store.hosts import ClosedRow, HostRow
from hostler.control.vms.reasons import NOT_TAKING, is_cordon
from hostler.model import Change, Cure, Explanation, Failure, GangAdvice, HostVerdict, Reason, ReasonCount
from hostler.model.decisions import ChangeKind

__all__ = [
    "Cause",
    "Standings",
    "out_of_reach",
    "read",
    "recounted",
    "restated",
    "restated_verdict",
    "standings_of",
    "without",
]

_CORDON = "cordon"  # the filter of the engine
_CORDONED = "cordoned"
_replace = msgspec.structs.replace


class Cause(msgspec.Struct, frozen=True):
    """One thing that keeps VMs from a host: a stable word, and what ends it."""

    code: str
    cure: str

    def reason(self) -> Reason:
        """Return it as a reason of a decision."""
        return Reason(_CORDON, self.code)

    def change(self, host: str) -> Change:
        """Return what ends it as a part of a cure."""
        kind: ChangeKind = "uncordon" if self.code == _CORDONED else "other"
        return Change(kind=kind, subject=host, text=self.cure.format(host=host), relative=1.0)


Standings = Mapping[str, tuple[Cause, ...]]
"""What keeps VMs from hosts, by the name of the host, the gravest first."""

_BY_STATE = {
    "joined": Cause("never_registered", "start the agent of {host}: it has joined and never registered"),
    "silent": Cause("silent", "bring {host} back: it is not heard, so look at its network, its agent and the machine"),
    "offline": Cause("offline", "start the agent of {host} again: somebody forced it offline"),
    "fenced": Cause("fenced", "repair {host} and start its agent: it was proved dead"),
}
_LOCKED_OUT = Cause(
    "locked_out",
    "let {host} join again: its credential was revoked, so start its agent with what "
    "hostler token create --host {host} gives",
)
_SINCE_RESTORE = Cause(
    "not_registered_since_restore", "start the agent of {host}: it has not registered since the restore"
)
_DRAINING = Cause("draining", "end the draining of {host}: hostler host undrain {host}")
_BY_HAND = Cause(_CORDONED, "uncordon {host}: hostler host uncordon {host}")
_LEFT_OUT = Cause(_CORDONED, "plan with {host}")
_UNCOUNTED = Cause("inventory_unknown", "look at {host}: its agent does not know all that it has")
_UNHEARD = ("silent", "offline")
_ITSELF = ("silent", "fenced")  # something is the matter with the host itself: joining again does not end that


def read(connection: Connection) -> Standings:
    """Return what keeps VMs from which hosts now."""
    rows = hosts.closed(connection)
    unheard = [row.name for row in rows if row.state in _BY_STATE]
    found = hosts.find_by_names(connection, unheard)
    return standings_of(rows, locked_out={name for name, row in found.items() if read_body(row).is_locked_out})


def standings_of(rows: Iterable[ClosedRow], *, locked_out: Collection[str] = ()) -> Standings:
    """Return what keeps VMs from hosts, as their rows say it; ``locked_out`` are those that need a new token."""
    return {row.name: tuple(_causes(row, is_locked_out=row.name in locked_out)) for row in rows}


def out_of_reach(row: HostRow, body: HostBody) -> str:
    """Say what brings back a host whose agent is not heard or not let in; nothing where nothing is the matter.

    What a restore waits for is told as a trouble of its own.
    """
    found = [_LOCKED_OUT] if body.is_locked_out else []
    is_by_state = row.state in _BY_STATE and not is_unregistered(row)
    if is_by_state and (not body.is_locked_out or row.state in _ITSELF):
        found.append(_BY_STATE[row.state])
    texts = [cause.cure.format(host=row.name) for cause in found]
    if is_by_state and row.state == "silent":
        texts.append(f"if it is dead, switch it off, then hostler host confirm-dead {row.name}")
    return "; ".join(texts)


def _causes(row: ClosedRow, *, is_locked_out: bool) -> Iterable[Cause]:
    if is_locked_out:
        yield _LOCKED_OUT
    if not is_locked_out or row.state in _ITSELF:
        yield from _by_state(row)
    if row.is_draining:
        yield _DRAINING
    if row.is_cordoned:
        yield _BY_HAND


def _by_state(row: ClosedRow) -> Iterable[Cause]:
    if row.state in _UNHEARD and not row.agent:
        yield _SINCE_RESTORE
    elif row.state in _BY_STATE:
        yield _BY_STATE[row.state]


def restated(found: Explanation, standings: Standings) -> Explanation:
    """Return an explanation that says what keeps VMs from hosts, and what ends that."""
    closed = [one.host for one in found.verdicts if any(map(_is_cordon, one.failures))]
    if not closed:
        return found
    first = Counter(
        _of(one.host, standings)[0].reason() for one in found.verdicts if one.failures and _is_cordon(one.failures[0])
    )
    kept = [count for count in found.decision.reasons if not is_cordon(count.reason)]
    counts = (*kept, *(ReasonCount(reason, hosts) for reason, hosts in first.items()))
    return _replace(
        found,
        decision=_replace(found.decision, reasons=_ordered(counts)),
        verdicts=tuple(restated_verdict(one, standings) for one in found.verdicts),
        cure=None if found.cure is None else _cure(found.cure, standings),
        gang=None if found.gang is None else _gang(found.gang, closed, standings),
    )


def recounted(counts: Iterable[ReasonCount], closed: Collection[str], standings: Standings) -> tuple[ReasonCount, ...]:
    """Return how many hosts refuse for which reason, where ``closed`` are all that the engine takes for cordoned.

    A count does not name its hosts. Where some of the closed ones were refused for something else before, and they are
    closed for several reasons, no more can be said than that they take no VMs.
    """
    result: list[ReasonCount] = []
    for count in counts:
        if not is_cordon(count.reason):
            result.append(count)
            continue
        causes = Counter(_of(host, standings)[0].reason() for host in closed)
        if len(causes) == 1:
            result.append(ReasonCount(next(iter(causes)), count.hosts))
        elif causes.total() == count.hosts:
            result += [ReasonCount(reason, hosts) for reason, hosts in causes.items()]
        else:
            result.append(ReasonCount(NOT_TAKING, count.hosts))
    return _ordered(result)


def without(standings: Standings, names: Iterable[str]) -> Standings:
    """Return what keeps VMs from hosts where a plan does without some of them."""
    return {**standings, **dict.fromkeys(names, (_LEFT_OUT,))}


def _of(host: str, standings: Standings) -> tuple[Cause, ...]:
    """Return what keeps VMs from a host that the engine takes for cordoned; what no row says is in its reports."""
    return standings.get(host) or (_UNCOUNTED,)


def _is_cordon(failure: Failure) -> bool:
    return is_cordon(failure.reason)


def restated_verdict(verdict: HostVerdict, standings: Standings) -> HostVerdict:
    """Return a verdict that says what keeps VMs from its host."""
    failures: list[Failure] = []
    for one in verdict.failures:
        causes = _of(verdict.host, standings) if _is_cordon(one) else ()
        failures += [_replace(one, reason=cause.reason()) for cause in causes] or [one]
    return _replace(verdict, failures=tuple(failures))


def _cure(cure: Cure, standings: Standings) -> Cure:
    changes: list[Change] = []
    for one in cure.changes:
        is_cordon = one.kind == "uncordon"
        changes += [cause.change(cure.host) for cause in _of(cure.host, standings)] if is_cordon else [one]
    return _replace(cure, changes=tuple(changes))


def _gang(advice: GangAdvice, closed: Collection[str], standings: Standings) -> GangAdvice:
    members = (_replace(one, reasons=recounted(one.reasons, closed, standings)) for one in advice.members)
    return _replace(advice, members=tuple(members))


def _ordered(counts: Iterable[ReasonCount]) -> tuple[ReasonCount, ...]:
    def key(count: ReasonCount) -> tuple[int, str, str, str]:
        return -count.hosts, count.reason.plugin, count.reason.code, count.reason.subject

    return tuple(sorted(counts, key=key))
