"""What kube-scheduler did with a pod, and how that is read from the pod itself."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from hostler.kube.api.resources import Resource
from hostler.manifests.metadata import Metadata, Read

_VICTIMS = re.compile(r"preempting (\d+) victim")

Objects = dict[str, list[Any]]  # by kind


class Seen(Read, frozen=True):
    """What a watch shows of a pod."""

    metadata: Metadata = Metadata()
    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    status: dict[str, Any] = msgspec.field(default_factory=dict)


SEEN = Resource(struct=Seen, kind="Pod", plural="pods")


class Answer(msgspec.Struct):
    """What kube-scheduler did with a pod. Without a message it fitted at once."""

    pod: str
    feasible: list[str] = []
    scores: dict[str, dict[str, int]] = {}
    node: str = ""  # where it was bound
    message: str = ""  # why it fitted nowhere at first
    nominated: str = ""
    victims: list[str] = []  # those that were told to go for it


class Asked(msgspec.Struct):
    """An answer, and the objects that were there when the pod came; the pod as it was created beside them."""

    answer: Answer
    objects: Objects
    pod: Any


def victim_count(answer: Answer) -> int:
    """Read from the message of a preemption how many pods go."""
    found = _VICTIMS.search(answer.message)
    assert found is not None, answer.message
    return int(found[1])


def place_of_pod(pod: Any) -> str:
    """Return the namespace and the name of a pod in one word."""
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def node_of(pod: Seen) -> str:
    """Return where a pod is bound; empty: nowhere."""
    return str(pod.spec.get("nodeName", ""))


def message_of(pod: Seen) -> str:
    """Return why a pod was refused; empty: it was not."""
    for condition in pod.status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message") or condition.get("reason"))
    return ""
