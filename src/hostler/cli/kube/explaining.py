"""What ``hostler explain`` does on a live cluster: the same as with files, on what is listed there."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from hostler.cli.explaining import Explained, explain_from_files
from hostler.cli.kernels import Kernels
from hostler.cli.kube.viewing import inputs_of, live_settings, see, view_pod
from hostler.cli.terminal import note
from hostler.kube.api.access import Access, read_access
from hostler.kube.api.client import Client
from hostler.kube.api.http import AiohttpTransport
from hostler.kube.api.resources import PODS
from hostler.kube.live.via import ask_scheduler
from hostler.manifests import Pod, pod_requests
from hostler.model import Explanation, Guest, GuestSpec

__all__ = ["explain_live", "explain_via"]


def explain_live(
    kernels: Kernels,
    wanted: str,
    namespace: str,
    kubeconfig: Path | None,
    context: str,
    *,
    config: str = "",
    policy: str = "",
) -> Explained:
    """Explain a pod as the cluster is now; whom its policy would evict is told, and nobody is."""
    settings = live_settings(config, policy)
    seen = see(kubeconfig, context)
    view, uid = view_pod(seen, settings, wanted, namespace)
    inputs = inputs_of(view, settings)
    return explain_from_files(inputs, kernels, uid, inputs.policies, seed=settings.seed)


def explain_via(via: str, wanted: str, namespace: str, kubeconfig: Path | None, context: str) -> Explained:
    """Ask the running scheduler to explain a pod: it also knows what it assumed, nominated and put off."""
    access = read_access(kubeconfig, context)
    where, _, name = wanted.rpartition("/")
    where = where or namespace or access.namespace
    data, pod = asyncio.run(_ask(access, via, where, name))
    for line in data.get("notes", ()):
        note(line)
    data["decision"]["host"] = data["decision"]["host"] or ""
    explanation = msgspec.convert(data, Explanation)
    was_bound = bool(explanation.decision.host) and not explanation.decision.seq
    spec = GuestSpec(namespace=where, requests=pod_requests(pod))
    guest = Guest(name=name, uid=explanation.decision.uid, spec=spec, host=explanation.decision.host)
    return Explained(guest=guest, explanation=explanation, was_bound=was_bound, message=data.get("message") or "")


async def _ask(access: Access, via: str, namespace: str, name: str) -> tuple[dict[str, Any], Pod]:
    path = f"/v1/explain/{quote(namespace, safe='')}/{quote(name, safe='')}"
    data = await ask_scheduler(access, via, path)
    client = Client(AiohttpTransport(access, max_connections=2), user_agent="hostler-cli")
    try:
        return data, await client.get(PODS, namespace, name)
    finally:
        await client.close()
