"""``hostler kube plan``: where pods would go that do not exist yet, and who would have to go for them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hostler.cli.kube.viewing import cluster_options, namespace_option, via_option
from hostler.cli.options import FILE, examples, output_option
from hostler.cli.terminal import Column, note, print_data, print_table, say

if TYPE_CHECKING:
    from hostler.kube.live.planning import Plan
    from hostler.kube.settings import SchedulerSettings

__all__ = ["plan"]


@click.command(
    epilog=examples(
        "hostler kube plan -f pods.yaml",
        "hostler kube plan -f deployment.yaml -n team-a --no-preempt -o json",
        "kubectl create deployment web --image=x --replicas=3 --dry-run=client -o yaml | hostler kube plan -f -",
    ),
    short_help="Say where pods would go, and who would be evicted for them.",
)
@click.option(
    "-f",
    "--file",
    "files",
    metavar="FILE",
    type=FILE,
    multiple=True,
    required=True,
    help="Manifests of pods, or of what makes pods; '-' is standard input. Give it as often as you like.",
)
@namespace_option("The namespace of objects that name none; else the context's.")
@click.option("--preempt/--no-preempt", default=True, show_default=True, help="Whether others may be evicted.")
@via_option()
@cluster_options()
@output_option("table", "json", "yaml")
@click.pass_context
def plan(
    ctx: click.Context,
    files: tuple[str, ...],
    namespace: str,
    preempt: bool,
    via: str,
    kubeconfig: Path | None,
    context: str,
    config: str,
    policy: str,
    output: str,
) -> None:
    """Say where pods would go on a live cluster if they were created now, and who would be evicted for them.

    Deployments, ReplicaSets, StatefulSets and Jobs count as the pods that they make; gangs need their PodGroup in the
    files or on the cluster. Pods that wait already are placed in the scheduler's own order, before or after. Nothing is
    written. The exit code is 1 when a pod of the files would not be placed.
    """
    from hostler.cli.kernels import kernels

    with kernels() as compiled:
        from hostler.cli.kube.viewing import live_settings
        from hostler.config import read_documents

        documents = [document.data for document in read_documents(files)]
        if via:
            found = _ask(via, documents, namespace, kubeconfig, context, preempt=preempt)
        else:
            settings = live_settings(config, policy)
            compiled.announce()
            found = _make(settings, documents, namespace, kubeconfig, context, preempt=preempt)
    for line in found.notes:
        note(line)
    if output == "table":
        _print(found)
    else:
        import msgspec

        print_data({**msgspec.to_builtins(found), "complete": found.is_complete}, output)
    if not found.is_complete:
        ctx.exit(1)


def _make(
    settings: SchedulerSettings,
    documents: Sequence[Any],
    namespace: str,
    kubeconfig: Path | None,
    context: str,
    *,
    preempt: bool,
) -> Plan:
    from hostler.cli.kube.viewing import see
    from hostler.cli.plugins import registry_for
    from hostler.kube.live.planned import read_planned
    from hostler.kube.live.planning import make_plan
    from hostler.kube.live.snapshot import open_view

    seen = see(kubeconfig, context)
    planned = read_planned(documents, settings, namespace or seen.access.namespace)
    view = open_view(seen.listings, settings, seen.at, registry=registry_for(settings.policies))
    return make_plan(view.world, view.engine, planned, seen.at, may_evict=preempt)


def _ask(
    via: str, documents: Sequence[Any], namespace: str, kubeconfig: Path | None, context: str, *, preempt: bool
) -> Plan:
    """Let the running scheduler plan: it also knows what it assumed and nominated."""
    import msgspec

    from hostler.kube.api.access import read_access
    from hostler.kube.live.planning import Plan
    from hostler.kube.live.via import ask_scheduler

    access = read_access(kubeconfig, context)
    query = {"namespace": namespace or access.namespace, "preempt": "true" if preempt else "false"}
    body = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": list(documents)})
    return msgspec.convert(asyncio.run(ask_scheduler(access, via, "/v1/plan", query=query, body=body)), Plan)


def _print(plan: Plan) -> None:
    has_reasons = any(pod.reason for pod in plan.pods)
    columns: list[Column] = [("POD", "left"), ("NODE", "left"), ("FEASIBLE", "right")]
    columns += [("REASON", "left")] if has_reasons else []
    rows = []
    for pod in plan.pods:
        devices = f" (devices {', '.join(map(str, pod.devices))})" if pod.devices else ""
        row = [f"{pod.namespace}/{pod.name}", (pod.node or "-") + devices, f"{pod.feasible}/{pod.nodes}"]
        rows.append([*row, pod.reason] if has_reasons else row)
    print_table(columns, rows)
    if plan.evicted:
        say()
        headings: list[Column] = [("EVICTED", "left"), ("FROM", "left"), ("FOR", "left"), ("WHY", "left")]
        print_table(
            headings, [[f"{one.namespace}/{one.name}", one.node, one.preemptor, one.why] for one in plan.evicted]
        )
    placed = sum(bool(pod.node) for pod in plan.pods)
    say()
    say(f"{placed:,} of {len(plan.pods):,} pods would be placed, {len(plan.evicted):,} evicted.")
