"""A live cluster as the commands see it: options, what is listed, and the same inputs that files would give.

Used by ``candidates``, ``plan``, ``capacity``, ``queue`` and by ``hostler explain`` without files.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from hostler.cli.kube.extras import needs_kube
from hostler.cli.kube.options import context_option, kubeconfig_option
from hostler.cli.options import FILE
from hostler.cli.terminal import note
from hostler.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from hostler.cli.inputs import Inputs
    from hostler.kube.api.access import Access
    from hostler.kube.api.client import Client
    from hostler.kube.live.listing import Listings
    from hostler.kube.live.snapshot import View
    from hostler.kube.settings import SchedulerSettings
    from hostler.manifests import Pod
    from hostler.model import Event

__all__ = ["Seen", "ask_cluster", "cluster_options", "find_pod", "inputs_of", "live_settings", "namespace_option"]
__all__ += ["no_pod", "other_word", "pod_named", "see", "via_option", "view_pod"]

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
UNSCHEDULABLE = "Unschedulable"  # the reason in the condition of a pod that fits nowhere
_AS_KUBECTL_NAMES = ("pod/", "pods/", "po/")
_MAKERS = ("cronjob", "daemonset", "deployment", "job", "replicaset", "replicationcontroller", "statefulset")
_IN_SHORT = {"cj": "cronjob", "ds": "daemonset", "deploy": "deployment", "rs": "replicaset", "sts": "statefulset"}


class Seen(NamedTuple):
    """What a cluster holds, who we are to it, and when that was."""

    listings: Listings
    access: Access
    at: int


def cluster_options() -> Callable[[F], F]:
    """Add the options that say which cluster, and by which profiles and policies."""

    def add(command: F) -> F:
        for option in (
            click.option(
                "--config",
                metavar="FILE",
                type=FILE,
                default="",
                help="The scheduler's configuration: a Scheduler file of ours, or a KubeSchedulerConfiguration.",
            ),
            click.option("--policy", metavar="NAME", default="", help="The policy, without --config."),
            context_option(),
            kubeconfig_option(),
        ):
            command = option(command)
        return command

    return add


def namespace_option(help_text: str = "The namespace; else the context's.") -> Callable[[F], F]:
    """Add ``-n NAMESPACE``."""
    return click.option("-n", "--namespace", metavar="NAMESPACE", default="", help=help_text)


def via_option() -> Callable[[F], F]:
    """Add ``--via ADDRESS``."""
    return click.option(
        "--via",
        metavar="ADDRESS",
        default="",
        help="Ask the running scheduler: NAMESPACE/SERVICE[:PORT] through the API server, "
        "NAMESPACE/https:SERVICE[:PORT] where it serves TLS, or http://127.0.0.1:10359. It is shown the kubeconfig's "
        "token.",
    )


def live_settings(config: str, policy: str) -> SchedulerSettings:
    """Read by which profiles and policies a cluster is looked at."""
    from hostler.kube.configuration import default_settings, read_settings

    if config and policy:
        raise InputError("--policy and --config contradict each other", hint="name the policy in the file's profiles")
    return read_settings(config, lenient=True) if config else default_settings(policy=policy or "kubernetes")


def see(kubeconfig: Path | None, context: str) -> Seen:
    """List everything that a scheduler looks at."""
    with needs_kube():
        from hostler.kube.api.access import read_access
        from hostler.kube.live.listing import list_all

    access = read_access(kubeconfig, context)
    listings = asyncio.run(ask_cluster(access, list_all))
    return Seen(listings, access, time.time_ns())  # noqa: TID251 - a cluster's own times are wall times


async def ask_cluster(access: Access, question: Callable[[Client], Awaitable[T]]) -> T:
    """Ask the API server something, by a client of its own."""
    from hostler.kube.api.client import Client
    from hostler.kube.api.http import AiohttpTransport

    client = Client(AiohttpTransport(access, max_connections=8), user_agent="hostler-cli")
    try:
        return await question(client)
    finally:
        await client.close()


def pod_named(wanted: str, namespace: str, usual: str) -> tuple[str, str]:
    """Return namespace and name of a pod that is named as ``name``, ``namespace/name`` or kubectl's ``pod/name``."""
    for prefix in _AS_KUBECTL_NAMES:
        wanted = wanted.removeprefix(prefix)
    where, _, name = wanted.rpartition("/")
    return where or namespace or usual, name


def find_pod(seen: Seen, wanted: str, namespace: str) -> Pod:
    """Find a pod by its uid, or as ``pod_named`` does."""
    from hostler.config import did_you_mean
    from hostler.manifests import Pod

    where, name = pod_named(wanted, namespace, seen.access.namespace)
    pods = [item for item in seen.listings["", "pods"] if isinstance(item, Pod)]
    for pod in pods:
        if pod.metadata.uid == wanted or (pod.metadata.namespace, pod.metadata.name) == (where, name):
            return pod
    near = did_you_mean(name, [pod.metadata.name for pod in pods if pod.metadata.namespace == where])
    elsewhere = next((pod.metadata.namespace for pod in pods if pod.metadata.name == name), "")
    raise no_pod(wanted, where, name, f"there is one in namespace {elsewhere}: -n {elsewhere}" if elsewhere else near)


def no_pod(wanted: str, where: str, name: str, hint: str = "") -> UnknownNameError:
    """Say that there is no such pod, also where what makes pods was meant."""
    kind = wanted.partition("/")[0].split(".")[0]
    kind = _IN_SHORT.get(kind, kind.removesuffix("s"))
    if kind in _MAKERS and "/" in wanted:
        return UnknownNameError(f"{wanted} is no pod", hint=f"name one of its pods: 'kubectl get pods' lists {name}-…")
    hint = hint or "-n names another namespace"
    return UnknownNameError(f"there is no pod {name!r} in namespace {where}", hint=hint)


def view_pod(seen: Seen, settings: SchedulerSettings, wanted: str, namespace: str) -> tuple[View, str]:
    """Open a view in which a pod is one of ours, and say so where it is not; return it and the pod's uid."""
    from hostler.cli.kube.past import not_placed_any_more
    from hostler.cli.plugins import registry_for
    from hostler.kube.live.answers import notes_on
    from hostler.kube.live.snapshot import as_ours, open_view
    from hostler.kube.live.waiting import not_offered

    pod = find_pod(seen, wanted, namespace)
    uid, registry = pod.metadata.uid, registry_for(settings.policies)
    view = open_view(seen.listings, settings, seen.at, change=as_ours(settings, uid), registry=registry)
    if uid not in view.engine.view.records:
        seen_as = view.world.pods.get(uid)
        if seen_as is None or not seen_as.problem:
            raise not_placed_any_more(pod.metadata.namespace, pod.metadata.name)
        hint = "look at it with kubectl describe"
        raise InputError(f"pod {wanted} is not placed at all: {seen_as.problem}", hint=hint)
    for line in (*notes_on(pod, settings), *not_offered(view.engine, view.engine.view.guest(uid).spec)):
        note(line)
    return view, uid


def other_word(pod: Pod, message: str) -> str:
    """Return what the scheduler wrote about a pod that waits, where it is something else than we find."""
    if pod.spec.node_name:
        return ""
    said = [one.message for one in pod.status.conditions if one.type == "PodScheduled" and one.reason == UNSCHEDULABLE]
    return "" if not said or (message and said[0].startswith(message)) else said[0]


def inputs_of(view: View, settings: SchedulerSettings, *, more: Iterable[Event] = ()) -> Inputs:
    """Return what a view holds in the form that files have, with what the engine would not take left out."""
    from hostler.cli.inputs import Inputs
    from hostler.config import Fleet, Tenancy
    from hostler.model import BudgetChanged, GangChanged, Guest, NamespaceChanged

    guests: dict[str, Guest] = {}
    told: dict[type, dict[str, Any]] = {NamespaceChanged: {}, GangChanged: {}, BudgetChanged: {}}
    known = view.engine.view.records
    for fact in (*view.facts, *more):
        if isinstance(fact, NamespaceChanged):
            told[NamespaceChanged][fact.name] = fact.labels
        elif isinstance(fact, GangChanged):
            told[GangChanged][fact.gang.key] = fact.gang
        elif isinstance(fact, BudgetChanged):
            told[BudgetChanged][fact.budget.key] = fact.budget
        elif (guest := getattr(fact, "guest", None)) is not None and guest.uid in known:
            guests[guest.uid] = guest
    fleet = Fleet(
        hosts=tuple(view.engine.hosts()),
        guests=tuple(guests.values()),
        tenancy=Tenancy(
            namespaces=told[NamespaceChanged],
            gangs=tuple(told[GangChanged].values()),
            budgets=tuple(told[BudgetChanged].values()),
        ),
    )
    policies = {policy.name: policy for policy in view.policies}
    return Inputs(fleet=fleet, policies=view.policies, known=policies, queue=settings.queue, pods=frozenset(guests))
