"""What kube-scheduler would say: the message of a refusal, in the words and the order that tools parse.

Runs where the engine runs, right after a turn. Guests of one shape get one message. The members of a gang carry the
gang's reason, the same for all, and then their own where it is another. Used by ``core``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hostler.engine.engine import Engine
from hostler.manifests.messages import counted_message, gang_message, named_hosts
from hostler.model import Action, Decision, Hold

__all__ = ["gang_reasons", "gathering_text", "hold_messages", "is_gathering"]

_NOTHING = "no node was found"
_FITS = "fits, but "  # how the engine's note on a member begins that would find room
_RUNS = "the gang runs"
_UNKNOWN = "is not known yet"  # how the engine's note on a gang ends that nobody declared
_NO_GROUP = ": there is no such PodGroup"
_FOR_THE_REST = ", it waits for the rest"


def gathering_text(why: str) -> str:
    """Say why a gang cannot be tried yet: what is counted, and what is waited for."""
    return why + (_NO_GROUP if why.endswith(_UNKNOWN) else _FOR_THE_REST)


def is_gathering(message: str) -> bool:
    """Say whether a condition's message is of a pod whose gang cannot be tried yet."""
    return message.endswith((_NO_GROUP, _FOR_THE_REST))


def gang_reasons(engine: Engine, actions: Iterable[Action]) -> dict[str, str]:
    """Say for each gang that was refused as a whole what keeps it: how many lack, and why the first of those."""
    found: dict[str, str] = {}
    is_explained: set[str] = set()
    for action in actions:
        record = engine.view.records.get(action.uid) if isinstance(action, Hold) else None
        if record is None or not isinstance(action, Hold):
            continue
        lacking, key = record.note.removeprefix(_FITS), record.guest.gang
        if not lacking.startswith(f"gang {key} needs ") or key in is_explained:
            continue
        if record.note.startswith(_FITS):
            found.setdefault(key, f"{lacking}.")
        else:
            found[key] = f"{lacking}: {_counted(action)}"
            is_explained.add(key)
    return found


def hold_messages(engine: Engine, actions: Iterable[Action], gangs: Mapping[str, str] | None = None) -> dict[str, str]:
    """Say why each pod that was refused fits nowhere, by uid; ``gangs`` is what :func:`gang_reasons` found."""
    actions = tuple(actions)
    reasons = gang_reasons(engine, actions) if gangs is None else gangs
    found: dict[str, str] = {}
    known: dict[tuple[int, Hold], str] = {}
    for action in actions:
        if not isinstance(action, Hold):
            continue
        record = engine.view.records.get(action.uid)
        if record is None:
            continue
        found[action.uid] = _counted(action)
        if record.guest.gang:
            found[action.uid] = _of_member(action, record.note, reasons.get(record.guest.gang, ""))
            continue
        if not _is_about_hosts(action):
            if record.note and any(count.reason.plugin == "ask" for count in action.reasons):
                found[action.uid] += f" {record.note}."  # what extenders say, in their words
            continue
        key = (record.shape, Hold("", "", 0, action.hosts, action.reasons, 0))
        if key not in known:
            spec = record.guest.spec
            try:
                refusals = engine.refusals(action.uid, named_hosts(spec))
                known[key] = counted_message(action.hosts, refusals, spec)
            except Exception:  # a plugin that fails when asked again: the decision's own counts will do
                known[key] = found[action.uid]
        found[action.uid] = known[key]
    return found


def _of_member(hold: Hold, note: str, reason: str) -> str:
    """Say why a member waits: what keeps the gang, then what keeps this pod, where that is something else."""
    if not hold.reasons:
        return reason or (f"{note}." if note else _NOTHING)
    own = _counted(hold)
    if not reason:
        return f"{note}: {own}" if note.startswith(_RUNS) else own
    return reason if note.startswith(_FITS) or reason.endswith(f": {own}") else f"{reason} This pod: {own}"


def _is_about_hosts(hold: Hold) -> bool:
    """Say whether hosts were asked at all: a quota or a lost policy refuses for all of them."""
    return not any(count.reason.plugin in ("quota", "policy", "guest", "ask") for count in hold.reasons)


def _counted(hold: Hold) -> str:
    decision = Decision(
        guest=hold.guest, uid=hold.uid, seq=hold.seq, at=0, policy="", state="waiting", hosts=hold.hosts,
        reasons=hold.reasons,
    )  # fmt: skip
    return gang_message(decision) or _NOTHING
