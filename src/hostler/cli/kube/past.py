"""Pods about which nothing is decided any more: finished, being deleted before they ran, or gone.

What is still known of them is their status and the events that name them, which API servers keep for about an hour.
Used by ``hostler explain``.
"""

from __future__ import annotations

import datetime

import msgspec

from hostler.cli.terminal import Column, print_table, printable, say
from hostler.cli.wording import plural
from hostler.errors import InputError
from hostler.kube.api.client import Broken, Client
from hostler.kube.api.failures import ApiError
from hostler.kube.api.resources import Resource
from hostler.kube.facts.views import has_ended
from hostler.manifests import Pod
from hostler.manifests.metadata import Metadata, Read

__all__ = ["Past", "PastEvent", "not_placed_any_more", "past_of", "print_past"]

GONE, LEAVING = "gone", "leaving"
_HOLDS_NOTHING = "it holds nothing there any more, and nothing is decided about it"


class _About(Read, frozen=True):
    uid: str = ""


class _Event(Read, frozen=True):
    metadata: Metadata = Metadata()
    reason: str = ""
    note: str = ""
    regarding: _About = _About()
    event_time: datetime.datetime | None = None
    deprecated_last_timestamp: datetime.datetime | None = None


_EVENTS = Resource(struct=_Event, kind="Event", plural="events", group="events.k8s.io")


class PastEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was written about a pod."""

    at: datetime.datetime | None = None
    reason: str = ""
    note: str = ""


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a pod that is not placed any more; ``state`` is its phase, or that it is leaving or gone."""

    guest: str
    namespace: str
    state: str
    uid: str = ""
    node: str = ""
    events: tuple[PastEvent, ...] = ()


async def past_of(client: Client, namespace: str, name: str, pod: Pod | None) -> Past | None:
    """Return what is known of a pod that is no longer placed; None of one that is, or that nobody ever heard of."""
    is_leaving = pod is not None and pod.metadata.deletion_timestamp is not None and not pod.spec.node_name
    if pod is not None and not has_ended(pod) and not is_leaving:
        return None
    uid = pod.metadata.uid if pod is not None else ""
    found = await _events(client, namespace, name, uid)
    if pod is None:
        return Past(guest=name, namespace=namespace, state=GONE, events=found) if found else None
    state = LEAVING if is_leaving and not has_ended(pod) else pod.status.phase.lower()
    return Past(guest=name, namespace=namespace, uid=uid, state=state, node=pod.spec.node_name, events=found)


def not_placed_any_more(namespace: str, name: str) -> InputError:
    """Refuse a question about where a pod could go that goes nowhere any more."""
    return InputError(
        f"pod {namespace}/{name} has ended or is being deleted: nothing is decided about it any more",
        hint=f"'hostler explain -n {namespace} {name}' tells what is known of it",
    )


async def _events(client: Client, namespace: str, name: str, uid: str) -> tuple[PastEvent, ...]:
    """Return the events about a pod, oldest first; none where they may not be read."""
    try:
        listing = await client.list(_EVENTS, namespace, fields=f"regarding.kind=Pod,regarding.name={name}")
    except ApiError:
        return ()
    found = [
        PastEvent(at=one.event_time or one.deprecated_last_timestamp, reason=one.reason, note=one.note)
        for one in listing.items
        if not isinstance(one, Broken) and uid in ("", one.regarding.uid)
    ]
    oldest = datetime.datetime.min.replace(tzinfo=datetime.UTC)
    return tuple(sorted(found, key=lambda one: one.at or oldest))


def print_past(past: Past) -> None:
    """Say in words what is known."""
    name = past.guest if past.namespace == "default" else f"{past.namespace}/{past.guest}"
    say(printable(f"{name} {_sentence(past)}."))
    say()
    if not past.events:
        say("No events about it are left: API servers keep them for about an hour.")
        return
    say(f"What was written about it ({plural(len(past.events), 'event')}):")
    columns: list[Column] = [("WHEN", "left"), ("WHAT", "left"), ("NOTE", "left")]
    print_table(columns, [[_time(one.at), one.reason, " ".join(one.note.split())] for one in past.events])


def _sentence(past: Past) -> str:
    if past.state == GONE:
        return "does not exist any more"
    if past.state == LEAVING:
        return "is being deleted and never ran: nothing is decided about it"
    if not past.node:
        return f"has {past.state} without ever being placed: nothing is decided about it"
    return f"has {past.state} on {past.node}: {_HOLDS_NOTHING}"


def _time(at: datetime.datetime | None) -> str:
    return at.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if at is not None else "-"
