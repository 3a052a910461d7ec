"""Messages of unschedulable pods, in kube-scheduler's words and order, which tools parse.

Runs on the engine's thread, right after a turn. Guests of one shape share one message. Members of a gang carry the
gang's reason, the same for all, followed by their own if it differs. Used by ``core``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from hostler.engine.engine import Engine
from hostler.manifests.pods.gangs import SEED_POD_GROUP_MIN
from hostler.manifests.scheduler_message import gang_message, message_from_counts, named_hosts
from hostler.model import Action, Decision, DecisionNote, Defer
from hostler.model.notes import FITS_WITHOUT_GANG, GANG_LACKS, GANG_RUNS, GANG_UNKNOWN, find_note
from hostler.model.vocabulary import note_text, notes_text

__all__ = ["counting_text", "gang_reasons", "gathering_text", "hold_messages", "is_gathering"]

_NOTHING = "no node was found"
_NO_GROUP = ": there is no such PodGroup"
_NO_MINIMUM = " says how many it needs"
_FOR_THE_REST = ", it waits for the rest"


def counting_text(gang: str) -> str:
    """Describe why a gang of annotations without a minimum cannot be tried yet."""
    return (
        f"gang {gang} is not complete yet: its annotations give no minimum, so it waits until no pod has joined it for "
        f"a second; {SEED_POD_GROUP_MIN}{_NO_MINIMUM}"
    )


def gathering_text(why: DecisionNote) -> str:
    """Describe why a gang cannot be tried yet: its present and its required members."""
    return note_text(why) + (_NO_GROUP if why.code == GANG_UNKNOWN else _FOR_THE_REST)


def is_gathering(message: str) -> bool:
    """Return whether a condition's message is about a gang that cannot be tried yet."""
    return message.endswith((_NO_GROUP, _NO_MINIMUM, _FOR_THE_REST))


def gang_reasons(engine: Engine, actions: Iterable[Action]) -> dict[str, str]:
    """Return the reason of each rejected gang: how many members do not fit, and why the first of them does not."""
    found: dict[str, str] = {}
    is_explained: set[str] = set()
    for action in actions:
        record = engine.view.records.get(action.uid) if isinstance(action, Defer) else None
        if record is None or not isinstance(action, Defer):
            continue
        note, key = find_note(record.notes, GANG_LACKS, FITS_WITHOUT_GANG), record.guest.gang
        if note is None or key in is_explained:
            continue
        lacking = note_text(msgspec.structs.replace(note, code=GANG_LACKS))
        if note.code == FITS_WITHOUT_GANG:
            found.setdefault(key, f"{lacking}.")
        else:
            found[key] = f"{lacking}: {_count_reasons(action)}"
            is_explained.add(key)
    return found


def hold_messages(engine: Engine, actions: Iterable[Action], gangs: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return why each unschedulable pod fits nowhere, by uid; ``gangs`` is from :func:`gang_reasons`."""
    actions = tuple(actions)
    reasons = gang_reasons(engine, actions) if gangs is None else gangs
    found: dict[str, str] = {}
    known: dict[tuple[int, Defer], str] = {}
    for action in actions:
        if not isinstance(action, Defer):
            continue
        record = engine.view.records.get(action.uid)
        if record is None:
            continue
        found[action.uid] = _count_reasons(action)
        if record.guest.gang:
            found[action.uid] = _of_member(action, record.notes, reasons.get(record.guest.gang, ""))
            continue
        if not _is_about_hosts(action):
            if record.notes and any(count.reason.plugin == "ask" for count in action.reasons):
                found[action.uid] += f" {notes_text(record.notes)}."  # messages of extenders
            continue
        key = (record.shape, Defer("", "", 0, action.hosts, action.reasons, 0))
        if key not in known:
            spec = record.guest.spec
            try:
                refusals = engine.refusals(action.uid, named_hosts(spec))
                known[key] = message_from_counts(action.hosts, refusals, spec)
            except Exception:  # a plugin that fails now: the decision's own counts are enough
                known[key] = found[action.uid]
        found[action.uid] = known[key]
    return found


def _of_member(hold: Defer, notes: Sequence[DecisionNote], reason: str) -> str:
    """Return why a member waits: the gang's reason, then the pod's own if it differs."""
    if not hold.reasons:
        return reason or (f"{notes_text(notes)}." if notes else _NOTHING)
    own = _count_reasons(hold)
    if not reason:
        return f"{notes_text(notes)}: {own}" if find_note(notes, GANG_RUNS) else own
    fits = find_note(notes, FITS_WITHOUT_GANG)
    return reason if fits or reason.endswith(f": {own}") else f"{reason} This pod: {own}"


def _is_about_hosts(hold: Defer) -> bool:
    """Return whether hosts were evaluated: a quota or a missing policy rejects for all of them."""
    return not any(count.reason.plugin in ("quota", "policy", "guest", "ask") for count in hold.reasons)


def _count_reasons(hold: Defer) -> str:
    decision = Decision(
        guest=hold.guest, uid=hold.uid, seq=hold.seq, at=0, policy="", state="waiting", hosts=hold.hosts,
        reasons=hold.reasons,
    )  # fmt: skip
    return gang_message(decision) or _NOTHING
