"""``hostler explain`` on a live cluster: like with files, but on a listing; also shows what is known of past pods."""

from __future__ import annotations

import asyncio
import datetime
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from hostler.cli.kernels import Kernels
from hostler.cli.kube.live import inputs_of, live_settings, see, view_pod
from hostler.cli.output.explanations import ShownExplanation
from hostler.cli.output.terminal import Column, note, print_table, printable, say
from hostler.errors import InputError, UnknownNameError
from hostler.kube.api.access import Access, read_access
from hostler.kube.api.client import KubeClient
from hostler.kube.api.failures import ApiError
from hostler.kube.api.resources import PODS
from hostler.kube.live.answers import member_message
from hostler.kube.live.listings import ask_cluster, find_pod, pod_named, pod_not_found, scheduler_message
from hostler.kube.live.past_pods import GONE, LEAVING, PastPod, find_past_pod
from hostler.kube.live.via import ask_scheduler
from hostler.manifests import Pod, pod_requests, pod_to_guest
from hostler.model import Decision, Explanation, Guest, GuestSpec
from hostler.model.vocabulary import plural
from hostler.queries import explain_guest

__all__ = [
    "explain_live", "explain_via", "print_past",
]  # fmt: skip

_HOLDS_NOTHING = "it holds nothing there, and is not scheduled any more"


def explain_live(
    kernels: Kernels,
    wanted: str,
    namespace: str,
    kubeconfig: Path | None,
    context: str,
    *,
    config: str = "",
    policy: str = "",
) -> ShownExplanation | PastPod:
    """Explain a pod in the present cluster. The victims of its policy are listed, none is evicted."""
    settings = live_settings(config, policy)
    seen = see(kubeconfig, context)
    where, name = pod_named(wanted, namespace, seen.access.namespace)
    pod = None
    with suppress(UnknownNameError):
        pod = find_pod(seen, wanted, namespace)
        where, name = pod.metadata.namespace, pod.metadata.name
    past = asyncio.run(ask_cluster(seen.access, lambda client: find_past_pod(client, where, name, pod)))
    if past is not None:
        return past
    view, uid = view_pod(seen, settings, wanted, namespace)
    inputs = inputs_of(view, settings)
    kernels.announce()
    explained = explain_guest(inputs, uid, inputs.policies, describe_wait=member_message)
    said = scheduler_message(pod, explained.message or "") if pod is not None else ""
    return ShownExplanation.of(explained, said=said)


def explain_via(
    via: str, wanted: str, namespace: str, kubeconfig: Path | None, context: str
) -> ShownExplanation | PastPod:
    """Let the running scheduler explain a pod: it also knows its assumed, nominated and delayed pods."""
    access = read_access(kubeconfig, context)
    where, name = pod_named(wanted, namespace, access.namespace)
    pod, past = asyncio.run(ask_cluster(access, lambda client: _look(client, where, name)))
    if past is not None:
        return past
    if pod is None:
        raise pod_not_found(wanted, where, name)
    data = asyncio.run(_ask(access, via, where, name))
    for line in data.get("notes", ()):
        note(line)
    data["decision"]["host"] = data["decision"]["host"] or ""
    explanation = _as_it_stands(msgspec.convert(data, Explanation), pod.spec.node_name)
    return ShownExplanation(
        guest=_guest(pod, where, explanation.decision),
        explanation=explanation,
        was_bound=bool(pod.spec.node_name),
        message="" if explanation.decision.host else data.get("message") or "",
    )


async def _look(client: KubeClient, namespace: str, name: str) -> tuple[Pod | None, PastPod | None]:
    try:
        pod = await client.get(PODS, namespace, name)
    except ApiError as error:
        if not error.is_gone:
            raise
        pod = None
    return pod, await find_past_pod(client, namespace, name, pod)


async def _ask(access: Access, via: str, namespace: str, name: str) -> dict[str, Any]:
    path = f"/v1/explain/{quote(namespace, safe='')}/{quote(name, safe='')}"
    found: dict[str, Any] = await ask_scheduler(access, via, path)
    return found


def _guest(pod: Pod, namespace: str, decision: Decision) -> Guest:
    """Return the pod as a guest of an engine, so that it is shown like without a scheduler to ask."""
    guest = None
    with suppress(InputError):
        guest, _ = pod_to_guest(pod)
    if guest is None:
        guest = Guest(name=decision.guest, uid=decision.uid, spec=GuestSpec(requests=pod_requests(pod)))
    spec = msgspec.structs.replace(guest.spec, namespace=namespace)
    return msgspec.structs.replace(guest, spec=spec, host=decision.host)


def _as_it_stands(explanation: Explanation, node: str) -> Explanation:
    """Return the explanation with a decision of the same moment as its hosts' verdicts.

    The scheduler's last decision may be older, with an outdated score. If it never decided about the pod, because of
    another scheduler's name or a gate, the best host is where the pod would go.
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


def print_past(past: PastPod) -> None:
    """Print what is known."""
    name = past.guest if past.namespace == "default" else f"{past.namespace}/{past.guest}"
    say(printable(f"{name} {_sentence(past)}."))
    say()
    if not past.events:
        say("No events about it are left: API servers keep them for about an hour.")
        return
    say(f"Events about it ({plural(len(past.events), 'event')}):")
    columns: list[Column] = [("WHEN", "left"), ("WHAT", "left"), ("NOTE", "left")]
    print_table(columns, [[_time(one.at), one.reason, " ".join(one.note.split())] for one in past.events])


def _sentence(past: PastPod) -> str:
    if past.state == GONE:
        return "does not exist any more"
    if past.state == LEAVING:
        return "is being deleted and never ran: it is not scheduled any more"
    if not past.node:
        return f"has {past.state} without being placed: it is not scheduled any more"
    return f"has {past.state} on {past.node}: {_HOLDS_NOTHING}"


def _time(at: datetime.datetime | None) -> str:
    return at.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if at is not None else "-"
