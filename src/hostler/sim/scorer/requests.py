"""Reads requests of the ``/score`` protocol, as a service gets them: from us, or from anybody else.

A node without the annotation ``hostler.dev/free`` counts as empty. What cannot be read is an ``InputError``, which the
service answers with 400.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from hostler.errors import InputError
from hostler.manifests import Node, Pod, node_to_host, pod_to_guest
from hostler.manifests.pods.gpus import GPU_COUNT, GPU_MILLI
from hostler.model import CPU, MAX_AMOUNT, MEMORY, WHOLE_DEVICE, may_give
from hostler.model.hosts import MAX_DEVICES
from hostler.sim.scorer.features import CandidateHosts, GuestNeeds, guest_needs
from hostler.sim.scorer.fragments import EncodedMix
from hostler.sim.scorer.protocol import FREE, FREE_GPU, FREE_OF, MODEL, NodeFreeAmounts

__all__ = ["BatchRequest", "RequestReader", "SingleRequest"]

_MOST_KEPT = 20_000  # nodes as they were last read
_LARGEST = 2.0**53  # beyond it a float is not exact
_MOST_MILLI = 1_000_000  # of one gpu, as everywhere


class BatchRequest(NamedTuple):
    """A guest, and named hosts."""

    wish: GuestNeeds
    names: list[str]
    hosts: CandidateHosts


class SingleRequest(NamedTuple):
    """A guest and one host."""

    wish: GuestNeeds
    hosts: CandidateHosts


class _ReadNode(NamedTuple):
    name: str
    cpu_size: int
    cpu_free: int
    memory_size: int
    memory_free: int
    left: tuple[int, ...]
    model: str


class _Request(msgspec.Struct):
    pod: msgspec.Raw
    nodes: list[msgspec.Raw] | None = None
    node: dict[str, float] | None = None


class RequestReader:
    """Reads requests; a node whose text it has seen is not read again."""

    def __init__(self, mix: EncodedMix) -> None:
        self._mix = mix
        self._known: dict[bytes, _ReadNode] = {}

    def read(self, raw: bytes) -> BatchRequest | SingleRequest:
        """Read a request of either variant."""
        try:
            request = msgspec.json.decode(raw, type=_Request)
            if request.nodes is not None:
                return self._batch(request.pod, request.nodes)
            if request.node is None:
                raise InputError("the request has neither nodes nor a node")
            amounts = msgspec.json.decode(request.pod, type=dict[str, float])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(f"the request cannot be read: {error}") from error
        return SingleRequest(_wish(amounts), self._columns([_single_node(request.node)]))

    def _batch(self, pod: msgspec.Raw, nodes: Sequence[msgspec.Raw]) -> BatchRequest:
        guest, _ = pod_to_guest(msgspec.json.decode(pod, type=Pod))
        if guest is None:
            raise InputError("the pod has ended, or is none that is scheduled")
        read = [self._node(bytes(node)) for node in nodes]
        names = [node.name for node in read]
        if len(set(names)) < len(names):
            raise InputError("two nodes have the same name")
        return BatchRequest(guest_needs(guest.spec), names, self._columns(read))

    def _node(self, raw: bytes) -> _ReadNode:
        known = self._known.get(raw)
        if known is not None:
            return known
        node = msgspec.json.decode(raw, type=Node)
        host, _ = node_to_host(node)
        sizes = may_give(host, CPU), may_give(host, MEMORY)
        free = NodeFreeAmounts(*sizes, (WHOLE_DEVICE,) * len(host.devices))
        if FREE in node.metadata.annotations:
            free = msgspec.json.decode(node.metadata.annotations[FREE], type=NodeFreeAmounts)
        if len(free.gpu_millis) != len(host.devices):
            raise InputError(f"node {host.name!r} has {len(host.devices)} gpus, and {FREE} tells of another number")
        model = host.devices[0].model if host.devices else ""
        read = _checked(
            _ReadNode(host.name, sizes[0], free.cpu_millis, sizes[1], free.memory_bytes, free.gpu_millis, model)
        )
        if len(self._known) >= _MOST_KEPT:
            self._known.clear()
        self._known[raw] = read
        return read

    def _columns(self, nodes: Sequence[_ReadNode]) -> CandidateHosts:
        width = max((len(node.left) for node in nodes), default=0)
        numbers = np.array([node[1:5] for node in nodes], dtype=np.int64).reshape(len(nodes), 4)
        left = np.array([node.left + (-1,) * (width - len(node.left)) for node in nodes], dtype=np.int64)
        number = {model: self._mix.number(model) for model in {node.model for node in nodes}}
        model = np.array([number[node.model] for node in nodes], dtype=np.int64)
        cpu_size, cpu_free, memory_size, memory_free = numbers.T
        return CandidateHosts(cpu_size, cpu_free, memory_size, memory_free, left.reshape(len(nodes), width), model)


def _wish(amounts: Mapping[str, float]) -> GuestNeeds:
    return GuestNeeds(
        round(1000 * _amount(amounts, CPU)),
        round(_amount(amounts, MEMORY)),
        round(_amount(amounts, GPU_COUNT)),
        round(_amount(amounts, GPU_MILLI)),
        any(name.startswith(MODEL) for name in amounts),
    )


def _single_node(amounts: Mapping[str, float]) -> _ReadNode:
    """Return a node from numbers by resource; what is not told to be free is free."""
    cpu, memory = _amount(amounts, CPU), _amount(amounts, MEMORY)
    count = round(_amount(amounts, GPU_COUNT))
    if count > MAX_DEVICES:
        raise InputError(f"{count} gpus are more than the {MAX_DEVICES} that a node may have")
    left = [round(_amount(amounts, f"{FREE_GPU}{at}", WHOLE_DEVICE)) for at in range(count)]
    model = next((name.removeprefix(MODEL) for name in sorted(amounts) if name.startswith(MODEL)), "")
    return _checked(
        _ReadNode(
            "the node",
            round(1000 * cpu),
            round(1000 * _amount(amounts, FREE_OF + CPU, cpu)),
            round(memory),
            round(_amount(amounts, FREE_OF + MEMORY, memory)),
            tuple(left),
            model,
        )
    )


def _amount(amounts: Mapping[str, float], name: str, default: float = 0.0) -> float:
    amount = amounts.get(name, default)
    if not abs(amount) <= _LARGEST:
        raise InputError(f"{name} is {amount}, which is too much")
    return amount


def _checked(node: _ReadNode) -> _ReadNode:
    if any(abs(amount) > MAX_AMOUNT for amount in node[1:5]):
        raise InputError(f"{node.name}: an amount is beyond 2^62")
    if any(not 0 <= left <= _MOST_MILLI for left in node.left):
        raise InputError(f"{node.name}: {FREE} has a gpu with less than nothing left, or more than there is")
    return node
