"""Hosts of an engine in the protocol's words; what did not change since it was last written is not written again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from hostler.engine import Engine
from hostler.model import CPU, MEMORY, Host, amounts
from hostler.sim.scorer.features import GPU
from hostler.sim.scorer.protocol import NodeFreeAmounts, Variant, node_amounts, node_text

__all__ = ["NodeTexts"]

Writer: TypeAlias = Callable[[Host, NodeFreeAmounts], bytes]
_WRITERS: dict[Variant, Writer] = {"batch": node_text, "per_node": node_amounts}


class NodeTexts:
    """Writes hosts with what is free on them now."""

    def __init__(self, engine: Engine, variant: Variant) -> None:
        self._engine = engine
        self._policy = engine.policies[0]
        self._write = _WRITERS[variant]
        self._known: dict[str, tuple[Host, int, bytes]] = {}

    def text(self, name: str) -> bytes:
        """Return a host's text."""
        host, version = self._engine.view.host(name), self._engine.view.host_version(name)
        known = self._known.get(name)
        if known is not None and known[0] is host and known[1] == version:
            return known[2]
        text = self._write(self._as_the_policy_sees(host), self._free(host))
        self._known[name] = (host, version, text)
        return text

    def _as_the_policy_sees(self, host: Host) -> Host:
        """Return the host with the policy's overcommit and reserve, so that it says what it may give here."""
        policy = self._policy
        if not policy.overcommit and not policy.reserve:
            return host
        overcommit = amounts({**dict(policy.overcommit), **dict(host.overcommit)})
        reserve = tuple(sorted({**dict(policy.reserve), **dict(host.reserve)}.items()))
        return msgspec.structs.replace(host, overcommit=overcommit, reserve=reserve)

    def _free(self, host: Host) -> NodeFreeAmounts:
        view = self._engine.view
        devices = zip(host.devices, view.devices_left(host.name), strict=True)
        gpus = tuple(left for device, left in devices if device.kind == GPU)
        return NodeFreeAmounts(view.room_left(host.name, CPU), view.room_left(host.name, MEMORY), gpus)
