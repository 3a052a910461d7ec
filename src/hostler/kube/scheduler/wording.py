"""What kube-scheduler would say: the message of a refusal, in the words and the order that tools parse.

Runs where the engine runs, right after a turn. Guests of one shape get one message. Used by ``core``.
"""

from __future__ import annotations

from collections.abc import Iterable

from hostler.engine.engine import Engine
from hostler.manifests.messages import counted_message, gang_message, named_hosts
from hostler.model import Action, Decision, Hold

__all__ = ["hold_messages"]

_NOTHING = "no node was found"


def hold_messages(engine: Engine, actions: Iterable[Action]) -> dict[str, str]:
    """Say why each pod that was refused fits nowhere, by uid."""
    found: dict[str, str] = {}
    known: dict[tuple[int, Hold], str] = {}
    for action in actions:
        if not isinstance(action, Hold):
            continue
        record = engine.state.guests.get(action.uid)
        if record is None:
            continue
        found[action.uid] = _counted(action)
        if record.guest.gang or not _is_about_hosts(action):
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


def _is_about_hosts(hold: Hold) -> bool:
    """Say whether hosts were asked at all: a quota or a lost policy refuses for all of them."""
    return not any(count.reason.plugin in ("quota", "policy", "guest") for count in hold.reasons)


def _counted(hold: Hold) -> str:
    decision = Decision(
        guest=hold.guest, uid=hold.uid, seq=hold.seq, at=0, policy="", state="waiting", hosts=hold.hosts,
        reasons=hold.reasons,
    )  # fmt: skip
    return gang_message(decision) or _NOTHING
