"""Why pods wait, in the same words as the conditions and events that the scheduler writes.

Plans, explanations and the queue all use this module, so that they agree. Used by ``plan``, by the service's pages and
by ``hostler explain``.
"""

from __future__ import annotations

from collections.abc import Iterable

from hostler.engine import Engine
from hostler.kube.scheduler.messages import gathering_text, hold_messages
from hostler.manifests.scheduler_message import gang_message, scheduler_message
from hostler.model import Defer, Explanation, Guest, GuestSpec

__all__ = ["member_message", "member_messages", "not_offered", "waiting_message", "waiting_messages"]


def member_messages(engine: Engine, gang: str) -> dict[str, str]:
    """Return why each pending member of a gang waits, by uid."""
    gangs = engine.view.gangs
    waiting = gangs.pending(gang) if gang else []
    why = gangs.why_not_ready(gang) if waiting else None
    if why is not None:
        return dict.fromkeys(waiting, gathering_text(why))
    decisions = sorted((engine.decision(uid) for uid in waiting), key=lambda one: one.seq)
    holds = [Defer(one.uid, one.guest, one.seq, one.hosts, one.reasons, one.attempt) for one in decisions if one.seq]
    return hold_messages(engine, holds)


def member_message(engine: Engine, guest: Guest) -> str:
    """Return why a member of a gang waits; empty if it does not wait or is in no gang."""
    return member_messages(engine, guest.gang).get(guest.uid, "")


def waiting_message(engine: Engine, uid: str, explanation: Explanation) -> str:
    """Return why a pod waits, given its explanation; empty if it is placed or was never tried."""
    if explanation.decision.host:
        return ""
    guest = engine.view.guest(uid)
    own = scheduler_message(explanation, guest.spec) or gang_message(explanation.decision)
    return member_messages(engine, guest.gang).get(uid) or own


def waiting_messages(engine: Engine, uids: Iterable[str]) -> dict[str, str]:
    """Return for many pods why each waits; placed ones are left out."""
    found: dict[str, str] = {}
    for uid in uids:
        record = engine.view.records.get(uid)
        if record is None or record.host or uid in found:
            continue
        found |= member_messages(engine, record.guest.gang)
        if uid not in found:
            found[uid] = waiting_message(engine, uid, engine.explain(uid))
    return found


def not_offered(engine: Engine, spec: GuestSpec) -> list[str]:
    """Return the names of requested resources that no node has, free or taken."""
    wanted = dict.fromkeys([name for name, amount in spec.requests if amount] + [one.kind for one in spec.devices])
    offered: set[str] = set()
    for host in engine.hosts():
        offered |= {name for name, amount in host.capacity if amount} | {device.kind for device in host.devices}
    return [f"no node offers {name}" for name in wanted if name not in offered]
