"""What kube-scheduler would say: the message of a refusal, in the words and the order that tools parse.

Made from the counts of a decision, which name the first reason of each node; nodes that lack several resources are
counted once. Used by ``loop``.
"""

from __future__ import annotations

from hostler.manifests.messages import gang_message
from hostler.model import Decision, Hold

__all__ = ["hold_message"]

NO_NODES = "no nodes available to schedule pods"


def hold_message(hold: Hold) -> str:
    """Say why a pod fits nowhere."""
    if not hold.hosts:
        return NO_NODES
    decision = Decision(
        guest=hold.guest, uid=hold.uid, seq=hold.seq, at=0, policy="", state="waiting", hosts=hold.hosts,
        reasons=hold.reasons,
    )  # fmt: skip
    return gang_message(decision) or "no node was found"
