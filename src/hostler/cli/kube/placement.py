"""``hostler kube plan`` and ``candidates``: where pods would go, and why not elsewhere. Nothing is written.

Both use a listing of the cluster, or a running scheduler with ``--via``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hostler.cli.kube.options import cluster_options, namespace_option, needs_kube, via_option
from hostler.cli.options import FilesOption, examples, output_option
from hostler.cli.output.terminal import Column, note, print_data, print_table, printable, say
from hostler.model.vocabulary import plural

if TYPE_CHECKING:
    from hostler.kube.live.plan import PodPlan
    from hostler.kube.settings import SchedulerSettings
    from hostler.model import Explanation

__all__ = ["candidates", "plan"]


@click.command(
    epilog=examples(
        "hostler kube plan -f pods.yaml",
        "hostler kube plan -f deployment.yaml -n team-a --no-preempt -o json",
        "kubectl create deployment web --image=x --replicas=3 --dry-run=client -o yaml | hostler kube plan -f -",
    ),
    short_help="Show where pods would go, and which pods would be evicted for them.",
)
@click.option(
    "-f",
    "--file",
    "files",
    cls=FilesOption,
    required=True,
    help="Manifests of pods or workloads; '-' is standard input.",
)
@namespace_option("The namespace of objects without one.  [default: the context's]")
@click.option("--preempt/--no-preempt", default=True, show_default=True, help="Whether other pods may be evicted.")
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
        from hostler.cli.kube.live import live_settings
        from hostler.config import read_documents, with_folder_files

        documents = [document.data for document in read_documents(with_folder_files(files))]
        if via:
            found = _ask_plan(via, documents, namespace, kubeconfig, context, preempt=preempt)
        else:
            settings = live_settings(config, policy)
            compiled.announce()
            found = _make_plan(settings, documents, namespace, kubeconfig, context, preempt=preempt)
    for line in found.notes:
        note(line)
    if output == "table":
        _print_plan(found)
    else:
        import msgspec

        print_data({**msgspec.to_builtins(found), "complete": found.is_complete}, output)
    if not found.is_complete:
        ctx.exit(1)


def _make_plan(
    settings: SchedulerSettings,
    documents: Sequence[Any],
    namespace: str,
    kubeconfig: Path | None,
    context: str,
    *,
    preempt: bool,
) -> PodPlan:
    from hostler.cli.kube.live import see
    from hostler.kube.live.plan import make_plan
    from hostler.kube.live.planned_objects import read_planned
    from hostler.kube.live.snapshot import open_snapshot
    from hostler.runtime.plugins import registry_for

    seen = see(kubeconfig, context)
    planned = read_planned(documents, settings, namespace or seen.access.namespace)
    view = open_snapshot(seen.listings, settings, seen.at, registry=registry_for(settings.policies))
    return make_plan(view.cluster, view.engine, planned, seen.at, may_evict=preempt)


def _ask_plan(
    via: str, documents: Sequence[Any], namespace: str, kubeconfig: Path | None, context: str, *, preempt: bool
) -> PodPlan:
    """Let the running scheduler plan: it also knows its assumed and nominated pods."""
    import msgspec

    from hostler.kube.api.access import read_access
    from hostler.kube.live.plan import PodPlan
    from hostler.kube.live.via import ask_scheduler

    access = read_access(kubeconfig, context)
    query = {"namespace": namespace or access.namespace, "preempt": "true" if preempt else "false"}
    body = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": list(documents)})
    return msgspec.convert(asyncio.run(ask_scheduler(access, via, "/v1/plan", query=query, body=body)), PodPlan)


def _print_plan(plan: PodPlan) -> None:
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
    say(f"{placed:,} of {plural(len(plan.pods), 'pod')} would be placed, {len(plan.evicted):,} evicted.")


@click.command(
    epilog=examples(
        "hostler kube candidates web-0",
        "hostler kube candidates -n team-a db-0 -o json",
        "hostler kube candidates web-0 --via hostler-system/https:hostler-scheduler:https",
    ),
    short_help="Show which nodes would take a pod, and why others would not.",
)
@click.argument("pod", metavar="POD")
@namespace_option()
@via_option()
@cluster_options()
@output_option("table", "json", "yaml")
@click.pass_context
def candidates(
    ctx: click.Context, pod: str, namespace: str, via: str, kubeconfig: Path | None, context: str, config: str,
    policy: str, output: str,
) -> None:  # fmt: skip
    """Show every node: those that would take a pod with their scores, best first, and the others with all reasons.

    POD is a name, namespace/name, pod/name or a uid. A running pod is evaluated as if it did not use its own node. With
    --via the running scheduler answers. The exit code is 1 when no node would take it. Nothing is written.
    """
    from hostler.cli.kernels import kernels

    with kernels() as compiled:
        if via:
            (where, explanation), said = _ask_candidates(via, pod, namespace, kubeconfig, context), ""
        else:
            from hostler.cli.kube.live import live_settings, see, view_pod
            from hostler.kube.live.answers import waiting_message

            with needs_kube():
                from hostler.kube.live.listings import find_pod, scheduler_message

            settings = live_settings(config, policy)
            seen = see(kubeconfig, context)
            compiled.announce()
            view, uid = view_pod(seen, settings, pod, namespace)
            where, explanation = view.cluster.pods[uid].namespace, view.engine.explain(uid)
            message = waiting_message(view.engine, uid, explanation)
            # A member waits for its gang, which is not decided here.
            said = "" if explanation.gang else scheduler_message(find_pod(seen, pod, namespace), message)
    if output == "table":
        _print_candidates(where, explanation, said)
    else:
        print_data(_as_data(where, explanation), output)
    if not explanation.feasible:
        ctx.exit(1)


def _ask_candidates(
    via: str, pod: str, namespace: str, kubeconfig: Path | None, context: str
) -> tuple[str, Explanation]:
    """Let the running scheduler answer: it also knows its assumed and nominated pods."""
    from hostler.cli.kube.explain import explain_via
    from hostler.kube.live.past_pods import PastPod, not_placed_any_more

    found = explain_via(via, pod, namespace, kubeconfig, context)
    if isinstance(found, PastPod):
        raise not_placed_any_more(found.namespace, found.guest)
    return found.guest.spec.namespace, found.explanation


def _print_candidates(namespace: str, explanation: Explanation, said: str) -> None:
    from hostler.cli.output.explanations import gang_line, print_fitting, print_rejecting, print_scheduler_message

    fitting = [verdict for verdict in explanation.verdicts if verdict.fits]
    refusing = [verdict for verdict in explanation.verdicts if not verdict.fits]
    name = printable(f"{namespace}/{explanation.decision.guest}")
    if said:
        print_scheduler_message(name, said)
    alone = " by itself" if explanation.gang else ""
    say(f"{len(fitting):,} of {plural(len(explanation.verdicts), 'node')} would take {name}{alone}.")
    if explanation.gang is not None:
        say(printable(gang_line(explanation.gang)))
    if fitting:
        print_fitting(fitting, explanation.decision.host, None)
    if refusing:
        print_rejecting(refusing, None)


def _as_data(namespace: str, explanation: Explanation) -> dict[str, object]:
    from hostler.kube.live.answers import candidates_as_data

    return candidates_as_data(explanation, namespace)
