"""Pods that are no longer scheduled: finished, deleted before they ran, or gone.

Their status and the events about them are still known; API servers keep events for about an hour. ``hostler explain``
shows them in place of an explanation.
"""

from __future__ import annotations

import datetime

import msgspec

from hostler.errors import InputError
from hostler.kube.api.client import KubeClient, UndecodableObject
from hostler.kube.api.failures import ApiError
from hostler.kube.api.resources import Resource
from hostler.kube.facts.views import has_ended
from hostler.manifests import Pod
from hostler.manifests.objects.metadata import Metadata, ObjectStruct

__all__ = ["GONE", "LEAVING", "PastEvent", "PastPod", "find_past_pod", "not_placed_any_more"]

GONE, LEAVING = "gone", "leaving"


class _About(ObjectStruct, frozen=True):
    uid: str = ""


class _Event(ObjectStruct, frozen=True):
    metadata: Metadata = Metadata()
    reason: str = ""
    note: str = ""
    regarding: _About = _About()
    event_time: datetime.datetime | None = None
    deprecated_last_timestamp: datetime.datetime | None = None


_EVENTS = Resource(struct=_Event, kind="Event", plural="events", group="events.k8s.io")


class PastEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event about a pod."""

    at: datetime.datetime | None = None
    reason: str = ""
    note: str = ""


class PastPod(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a pod that is not scheduled any more; ``state`` is its phase, or that it is leaving or gone."""

    guest: str
    namespace: str
    state: str
    uid: str = ""
    node: str = ""
    events: tuple[PastEvent, ...] = ()


async def find_past_pod(client: KubeClient, namespace: str, name: str, pod: Pod | None) -> PastPod | None:
    """Return what is known of a pod that is no longer scheduled; None if it still is, or never existed."""
    is_leaving = pod is not None and pod.metadata.deletion_timestamp is not None and not pod.spec.node_name
    if pod is not None and not has_ended(pod) and not is_leaving:
        return None
    uid = pod.metadata.uid if pod is not None else ""
    found = await _events(client, namespace, name, uid)
    if pod is None:
        return PastPod(guest=name, namespace=namespace, state=GONE, events=found) if found else None
    state = LEAVING if is_leaving and not has_ended(pod) else pod.status.phase.lower()
    return PastPod(guest=name, namespace=namespace, uid=uid, state=state, node=pod.spec.node_name, events=found)


def not_placed_any_more(namespace: str, name: str) -> InputError:
    """Return the error for a question about the placement of a pod that is no longer scheduled."""
    return InputError(
        f"pod {namespace}/{name} has ended or is being deleted: it is not scheduled any more",
        hint=f"'hostler explain -n {namespace} {name}' shows what is known of it",
    )


async def _events(client: KubeClient, namespace: str, name: str, uid: str) -> tuple[PastEvent, ...]:
    """Return the events about a pod, oldest first; none if they may not be read."""
    try:
        listing = await client.list(_EVENTS, namespace, fields=f"regarding.kind=Pod,regarding.name={name}")
    except ApiError:
        return ()
    found = [
        PastEvent(at=one.event_time or one.deprecated_last_timestamp, reason=one.reason, note=one.note)
        for one in listing.items
        if not isinstance(one, UndecodableObject) and uid in ("", one.regarding.uid)
    ]
    oldest = datetime.datetime.min.replace(tzinfo=datetime.UTC)
    return tuple(sorted(found, key=lambda one: one.at or oldest))
