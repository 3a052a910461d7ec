"""The decision of kube-scheduler about a pod, read from the pod."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from hostler.kube.api.resources import Resource
from hostler.manifests.objects.metadata import Metadata, ObjectStruct

_VICTIMS = re.compile(r"preempting (\d+) victim")

Objects = dict[str, list[Any]]  # by kind


class Seen(ObjectStruct, frozen=True):
    """The used fields of a watched pod."""

    metadata: Metadata = Metadata()
    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    status: dict[str, Any] = msgspec.field(default_factory=dict)


SEEN = Resource(struct=Seen, kind="Pod", plural="pods")


class SchedulerAnswer(msgspec.Struct):
    """The decision of kube-scheduler. Without a message the pod fitted at once."""

    pod: str
    feasible: list[str] = []
    scores: dict[str, dict[str, int]] = {}
    node: str = ""  # where it was bound
    message: str = ""  # why it fitted nowhere at first
    nominated: str = ""
    victims: list[str] = []  # those that were told to go for it


class ScheduledCase(msgspec.Struct):
    """A decision, and the objects that existed when the pod came, with the pod as it was created."""

    answer: SchedulerAnswer
    objects: Objects
    pod: Any


def victim_count(answer: SchedulerAnswer) -> int:
    """Return the number of victims from the message of a preemption."""
    found = _VICTIMS.search(answer.message)
    assert found is not None, answer.message
    return int(found[1])


def place_of_pod(pod: Any) -> str:
    """Return namespace and name of a pod in one word."""
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def node_of(pod: Seen) -> str:
    """Return the node of a pod; empty if it is not bound."""
    return str(pod.spec.get("nodeName", ""))


def message_of(pod: Seen) -> str:
    """Return why a pod was rejected; empty if it was not."""
    for condition in pod.status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message") or condition.get("reason"))
    return ""
