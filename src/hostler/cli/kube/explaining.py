"""What ``hostler explain`` does on a live cluster: the same as with files, on what is listed there."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from hostler.cli.explaining import Explained, explain_from_files
from hostler.cli.kernels import Kernels
from hostler.cli.kube.past import Past, past_of
from hostler.cli.kube.viewing import (
    ask_cluster,
    find_pod,
    inputs_of,
    live_settings,
    no_pod,
    other_word,
    pod_named,
    see,
    view_pod,
)
from hostler.cli.terminal import note
from hostler.errors import InputError, UnknownNameError
from hostler.kube.api.access import Access, read_access
from hostler.kube.api.client import Client
from hostler.kube.api.failures import ApiError
from hostler.kube.api.resources import PODS
from hostler.kube.live.via import ask_scheduler
from hostler.manifests import Pod, pod_requests, pod_to_guest
from hostler.model import Decision, Explanation, Guest, GuestSpec

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
) -> Explained | Past:
    """Explain a pod as the cluster is now; whom its policy would evict is told, and nobody is."""
    settings = live_settings(config, policy)
    seen = see(kubeconfig, context)
    where, name = pod_named(wanted, namespace, seen.access.namespace)
    pod = None
    with suppress(UnknownNameError):
        pod = find_pod(seen, wanted, namespace)
        where, name = pod.metadata.namespace, pod.metadata.name
    past = asyncio.run(ask_cluster(seen.access, lambda client: past_of(client, where, name, pod)))
    if past is not None:
        return past
    view, uid = view_pod(seen, settings, wanted, namespace)
    inputs = inputs_of(view, settings)
    explained = explain_from_files(inputs, kernels, uid, inputs.policies, seed=settings.seed, is_live=True)
    said = other_word(pod, explained.message or "") if pod is not None else ""
    return msgspec.structs.replace(explained, said=said)


def explain_via(via: str, wanted: str, namespace: str, kubeconfig: Path | None, context: str) -> Explained | Past:
    """Ask the running scheduler to explain a pod: it also knows what it assumed, nominated and put off."""
    access = read_access(kubeconfig, context)
    where, name = pod_named(wanted, namespace, access.namespace)
    pod, past = asyncio.run(ask_cluster(access, lambda client: _look(client, where, name)))
    if past is not None:
        return past
    if pod is None:
        raise no_pod(wanted, where, name)
    data = asyncio.run(_ask(access, via, where, name))
    for line in data.get("notes", ()):
        note(line)
    data["decision"]["host"] = data["decision"]["host"] or ""
    explanation = _as_it_stands(msgspec.convert(data, Explanation), pod.spec.node_name)
    return Explained(
        guest=_guest(pod, where, explanation.decision),
        explanation=explanation,
        was_bound=bool(pod.spec.node_name),
        message="" if explanation.decision.host else data.get("message") or "",
    )


async def _look(client: Client, namespace: str, name: str) -> tuple[Pod | None, Past | None]:
    try:
        pod = await client.get(PODS, namespace, name)
    except ApiError as error:
        if not error.is_gone:
            raise
        pod = None
    return pod, await past_of(client, namespace, name, pod)


async def _ask(access: Access, via: str, namespace: str, name: str) -> dict[str, Any]:
    path = f"/v1/explain/{quote(namespace, safe='')}/{quote(name, safe='')}"
    found: dict[str, Any] = await ask_scheduler(access, via, path)
    return found


def _guest(pod: Pod, namespace: str, decision: Decision) -> Guest:
    """Return the pod as the guest that it is to an engine, so that it is shown as without a scheduler to ask."""
    guest = None
    with suppress(InputError):
        guest, _ = pod_to_guest(pod)
    if guest is None:
        guest = Guest(name=decision.guest, uid=decision.uid, spec=GuestSpec(requests=pod_requests(pod)))
    spec = msgspec.structs.replace(guest.spec, namespace=namespace)
    return msgspec.structs.replace(guest, spec=spec, host=decision.host)


def _as_it_stands(explanation: Explanation, node: str) -> Explanation:
    """Return the explanation with a decision of the same moment as its hosts' verdicts.

    The scheduler's last decision may be older: then its score is of another time. Of a pod that it never decided about,
    because another scheduler's name or a gate is in the way, the best host is where it would go.
    """
    decision = explanation.decision
    totals = {verdict.host: verdict.total for verdict in explanation.verdicts if verdict.fits}
    host = node or decision.host
    is_held_back = explanation.gang is not None or explanation.quota or decision.note
    if not host and not decision.seq and not is_held_back:
        host = next(iter(totals), "")
    if host:
        decision = msgspec.structs.replace(decision, host=host, total=totals.get(host))
    return msgspec.structs.replace(explanation, decision=decision)
