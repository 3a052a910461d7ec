"""The ``/score`` protocol in its two variants, both JSON over POST.

*Batch*: ``{"pod": v1.Pod, "nodes": [v1.Node, ...]}`` is answered by ``{"scores": {"<node>": 0..100}}``, whole numbers;
the nodes are those that the pod fits on. *Per node*: ``{"pod": {resource: number}, "node": {resource: number}}`` is
answered by ``{"score": 0..100}``; one call for each node, so it is for small clusters.

What a node has says nothing about what is left of it, so nodes also carry what is free: in the batch variant as JSON in
the annotation ``hostler.dev/free``, in the other as further resources whose names begin with ``hostler.dev/``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import msgspec

from hostler.manifests import guest_to_pod, host_to_node
from hostler.manifests.pods.gpus import GPU_COUNT, GPU_MILLI, KIND
from hostler.model import CPU, GUESTS, WHOLE_DEVICE, Amounts, Guest, Host, may_give

__all__ = [
    "FREE",
    "FREE_GPU",
    "FREE_OF",
    "MODEL",
    "NodeFreeAmounts",
    "ScorerCallError",
    "Variant",
    "batch_request",
    "node_amounts",
    "node_text",
    "pod_amounts",
    "pod_text",
    "read_scores",
    "read_single_score",
    "single_request",
]  # fmt: skip

Variant = Literal["batch", "per_node"]

FREE = "hostler.dev/free"  # the annotation
FREE_OF = "hostler.dev/free."  # and a resource's name
FREE_GPU = "hostler.dev/free.gpu."  # and the gpu's index
MODEL = "hostler.dev/model."  # and a gpu model's name: 1 where a node has it, or a pod will take it
_BEST = 100
_MILLI = 1000.0


class NodeFreeAmounts(msgspec.Struct, frozen=True):
    """What is left of a node, in the annotation ``hostler.dev/free``; gpus in the order of their index."""

    cpu_millis: int
    memory_bytes: int
    gpu_millis: tuple[int, ...] = ()


class ScorerCallError(Exception):
    """No usable answer came: a word for what went wrong, and a sentence."""

    def __init__(self, kind: str, text: str, *, is_worth_a_retry: bool = False) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text
        self.is_worth_a_retry = is_worth_a_retry


class _Scores(msgspec.Struct):
    scores: dict[str, int | float]


class _Score(msgspec.Struct):
    score: float


def pod_text(guest: Guest) -> bytes:
    """Return a guest as the JSON of a Pod."""
    return msgspec.json.encode(guest_to_pod(guest))


def node_text(host: Host, free: NodeFreeAmounts) -> bytes:
    """Return a host as the JSON of a Node that says what is free."""
    node = host_to_node(host)
    metadata = node["metadata"]
    assert isinstance(metadata, dict)
    metadata["annotations"] = {FREE: msgspec.json.encode(free).decode()}
    return msgspec.json.encode(node)


def batch_request(pod: bytes, nodes: Sequence[bytes]) -> bytes:
    """Put a request together from texts; nodes that did not change need not be written again."""
    return b'{"pod":%b,"nodes":[%b]}' % (pod, b",".join(nodes))


def pod_amounts(guest: Guest) -> bytes:
    """Return what a guest asks for as numbers by resource: cpu in cores, memory in bytes, gpus and milli of each."""
    amounts = _numbers(guest.spec.requests)
    gpu = next((device for device in guest.spec.devices if device.kind == KIND), None)
    if gpu is not None:
        amounts |= {GPU_COUNT: float(gpu.count), GPU_MILLI: float(gpu.milli)}
        amounts |= {MODEL + model: 1.0 for model in gpu.models}
    return msgspec.json.encode(amounts)


def node_amounts(host: Host, free: NodeFreeAmounts) -> bytes:
    """Return what a host may give, and what is free of it, as numbers by resource."""
    amounts = _numbers(tuple((name, may_give(host, name)) for name, _ in host.capacity))
    amounts |= {FREE_OF + "cpu": free.cpu_millis / _MILLI, FREE_OF + "memory": float(free.memory_bytes)}
    if free.gpu_millis:
        count = len(free.gpu_millis)
        model = next(device.model for device in host.devices if device.kind == KIND)
        amounts |= {GPU_COUNT: float(count), GPU_MILLI: float(count * WHOLE_DEVICE), MODEL + model: 1.0}
        amounts |= {f"{FREE_GPU}{index}": float(left) for index, left in enumerate(free.gpu_millis)}
    return msgspec.json.encode(amounts)


def single_request(pod: bytes, node: bytes) -> bytes:
    """Put a request of the per-node variant together."""
    return b'{"pod":%b,"node":%b}' % (pod, node)


def read_scores(raw: bytes, asked: Collection[str]) -> dict[str, int]:
    """Read an answer to a batch. Nodes may be missing, but a node that was not asked about is an error."""
    try:
        answer = msgspec.json.decode(raw, type=_Scores)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ScorerCallError("not_an_answer", f'the answer is not {{"scores": {{...}}}}: {error}') from error
    names = asked if isinstance(asked, set | frozenset) else set(asked)
    for name, score in answer.scores.items():
        if name not in names:
            raise ScorerCallError(
                "unknown_node", f"the answer has a score for {name[:80]!r}, which was not asked about"
            )
        if not 0 <= score <= _BEST or score != int(score):
            raise ScorerCallError("out_of_range", f"the score of {name!r} is {score}, not a whole number from 0 to 100")
    return {name: int(score) for name, score in answer.scores.items()}


def read_single_score(raw: bytes, node: str) -> int:
    """Read an answer about one node, rounded to a whole number."""
    try:
        score = msgspec.json.decode(raw, type=_Score).score
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ScorerCallError("not_an_answer", f'the answer is not {{"score": number}}: {error}') from error
    if not 0 <= score <= _BEST:
        raise ScorerCallError("out_of_range", f"the score of {node!r} is {score}, not from 0 to 100")
    return round(score)


def _numbers(amounts: Amounts) -> dict[str, float]:
    """Return amounts as Kubernetes names and counts them."""
    plain: Mapping[str, int] = dict(amounts)
    return {
        "pods" if name == GUESTS else name: amount / _MILLI if name == CPU else float(amount)
        for name, amount in plain.items()
    }
