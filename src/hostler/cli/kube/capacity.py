"""``hostler kube capacity``: how many more of a pod fit on a live cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hostler.cli.kube.options import cluster_options, namespace_option, via_option
from hostler.cli.options import FILE, examples, output_option
from hostler.cli.output.terminal import note, print_data, print_table, say
from hostler.errors import InputError

if TYPE_CHECKING:
    from hostler.cli.kernels import Kernels
    from hostler.kube.live.listings import ClusterListing
    from hostler.kube.settings import SchedulerSettings
    from hostler.model import Event, Guest
    from hostler.queries import Fit

__all__ = ["capacity"]

MOST = 1_000_000


@click.command(
    epilog=examples("hostler kube capacity -f pod.yaml", "hostler kube capacity -f deployment.yaml -o json"),
    short_help="Count how many more of a pod fit.",
)
@click.option(
    "-f", "--file", metavar="FILE", type=FILE, required=True, help="A pod or a workload; '-' is standard input."
)
@namespace_option("The namespace of a pod without one.  [default: the context's]")
@click.option(
    "--max", "most", metavar="N", type=click.IntRange(min=1), default=MOST, show_default=True, help="Stop there."
)
@via_option()
@cluster_options()
@output_option("table", "json", "yaml")
def capacity(
    file: str, namespace: str, most: int, via: str, kubeconfig: Path | None, context: str, config: str, policy: str,
    output: str,
) -> None:  # fmt: skip
    """Count how many more copies of a pod fit on a live cluster, beside everything that runs and waits there.

    The count comes from placements under the policy. No pod is evicted, and nothing is written. With --via the running
    scheduler counts, up to 10,000.
    """
    from hostler.cli.kernels import kernels

    with kernels() as compiled:
        if via:
            fit = _ask_scheduler(via, file, namespace, kubeconfig, context, most=most)
        else:
            fit = _count(compiled, file, namespace, kubeconfig, context, config, policy, most=most)
    if output == "table":
        _print(fit)
    else:
        print_data(_as_data(fit), output)


def _ask_scheduler(via: str, file: str, namespace: str, kubeconfig: Path | None, context: str, *, most: int) -> Fit:
    """Let a running scheduler plan copies."""
    import asyncio

    from hostler.config import read_documents
    from hostler.kube.api.access import read_access
    from hostler.kube.live.capacity import count_copies_via

    access = read_access(kubeconfig, context)
    documents = read_documents([file])
    fit, notes = asyncio.run(count_copies_via(access, via, documents, namespace, source=file, most=most))
    for line in notes:
        note(line)
    return fit


def _count(
    kernels: Kernels, file: str, namespace: str, kubeconfig: Path | None, context: str, config: str, policy: str, *,
    most: int,
) -> Fit:  # fmt: skip
    """List the cluster and place copies here."""
    from hostler.cli.kube.live import inputs_of, live_settings, see
    from hostler.kube.live.snapshot import open_snapshot
    from hostler.queries import count_copies

    settings = live_settings(config, policy)
    seen = see(kubeconfig, context)
    view = open_snapshot(seen.listings, settings, seen.at)
    guest, facts = _guest(seen, settings, file, namespace)
    inputs = inputs_of(view, settings, more=facts)
    kernels.announce()
    return count_copies(inputs, guest, most=most)


def _guest(seen: ClusterListing, settings: SchedulerSettings, file: str, namespace: str) -> tuple[Guest, list[Event]]:
    """Return the pod of a file as a guest, with the facts of the other objects in the file."""
    from hostler.config import read_documents
    from hostler.kube.api.store import ObjectUpdate
    from hostler.kube.live.planned_objects import read_planned
    from hostler.kube.live.snapshot import open_cluster

    documents = [document.data for document in read_documents([file])]
    planned = read_planned(documents, settings, namespace or seen.access.namespace)  # type: ignore[arg-type]
    for line in planned.notes:
        note(line)
    cluster, _ = open_cluster(seen.listings, settings, seen.at)
    facts = [
        fact
        for resource, key, item in planned.objects
        for fact in cluster.take(resource, [ObjectUpdate(key, None, item)], seen.at)
    ]
    guests = [guest for uid in planned.uids if (guest := cluster.guest(uid)) is not None]
    if not guests:
        problem = next((cluster.pods[uid].problem for uid in planned.uids if uid in cluster.pods), "")
        raise InputError(f"{file}: the pod cannot be scheduled: {problem or 'it cannot be read'}")
    if len({guest.spec for guest in guests}) > 1:
        raise InputError(f"{file}: it has {len(guests)} pods that differ", hint="give a file with one pod")
    return guests[0], facts


def _print(fit: Fit) -> None:
    from hostler.cli.output.decision_texts import plural, request_text
    from hostler.manifests.scheduler_message import NO_NODES, gang_message

    what = f"{fit.guest.name} ({request_text(fit.guest.spec)})"
    if fit.count is None:
        say(f"unlimited: any number of pods like {what} fits.")
    else:
        at_least = "at least " if fit.is_limit else ""
        say(f"{at_least}{plural(fit.count, 'more pod')} like {what} fit{'s' if fit.count == 1 else ''}.")
    if fit.guest.gang:
        say(f"Copies are counted singly: 'hostler kube plan' says whether gang {fit.guest.gang} fits as a whole.")
    if fit.pending:
        say(f"Placed before them: {fit.pending_placed:,} of {plural(fit.pending, 'pending pod')}.")
    if fit.next is not None:
        say(f"The next one does not fit: {(gang_message(fit.next) or NO_NODES).removesuffix('.')}.")
    elif fit.is_limit:
        say("Counting stopped at --max.")
    if fit.per_host:
        say()
        rows = [[node, "unlimited" if count is None else f"{count:,}"] for node, count in fit.per_host[:20]]
        print_table([("NODE", "left"), ("PODS", "right")], rows)
        if len(fit.per_host) > len(rows):
            say(f"… and {len(fit.per_host) - len(rows):,} more; -o json shows all")


def _as_data(fit: Fit) -> dict[str, object]:
    from hostler.model.plain_data import decision_as_data

    return {
        "pod": fit.guest.name,
        "fits": fit.count,  # null: any number
        "unlimited": fit.count is None,
        "stopped_at_max": fit.is_limit,
        "pending": fit.pending,
        "pending_placed": fit.pending_placed,
        "per_node": dict(fit.per_host),
        "next": None if fit.next is None else decision_as_data(fit.next, fit.guest.spec.namespace),
    }
