"""``hostler kube candidates``: which nodes would take a pod, how they score, and why the others refuse."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hostler.cli.kube.viewing import cluster_options, namespace_option, via_option
from hostler.cli.options import examples, output_option
from hostler.cli.terminal import print_data, printable, say

if TYPE_CHECKING:
    from hostler.model import Explanation

__all__ = ["candidates"]


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

    POD is a name, namespace/name, pod/name or a uid. A pod that runs is looked at as if its own node were free of it.
    With --via the running scheduler is asked. The exit code is 1 when no node would take it. Nothing is written.
    """
    from hostler.cli.kernels import kernels

    with kernels() as compiled:
        if via:
            (where, explanation), said = _ask(via, pod, namespace, kubeconfig, context), ""
        else:
            from hostler.cli.kube.viewing import find_pod, live_settings, other_word, see, view_pod
            from hostler.kube.live.waiting import waiting_message

            settings = live_settings(config, policy)
            seen = see(kubeconfig, context)
            compiled.announce()
            view, uid = view_pod(seen, settings, pod, namespace)
            where, explanation = view.world.pods[uid].namespace, view.engine.explain(uid)
            message = waiting_message(view.engine, uid, explanation)
            # What a member waits for is its gang, of which nothing is decided here.
            said = "" if explanation.gang else other_word(find_pod(seen, pod, namespace), message)
    if output == "table":
        _print(where, explanation, said)
    else:
        print_data(_as_data(where, explanation), output)
    if not explanation.feasible:
        ctx.exit(1)


def _ask(via: str, pod: str, namespace: str, kubeconfig: Path | None, context: str) -> tuple[str, Explanation]:
    """Let the running scheduler look: it also knows what it assumed and nominated."""
    from hostler.cli.kube.explaining import explain_via
    from hostler.cli.kube.past import Past, not_placed_any_more

    found = explain_via(via, pod, namespace, kubeconfig, context)
    if isinstance(found, Past):
        raise not_placed_any_more(found.namespace, found.guest)
    return found.guest.spec.namespace, found.explanation


def _print(namespace: str, explanation: Explanation, said: str) -> None:
    from hostler.cli.explain_lines import gang_line, print_fitting, print_other_word, print_refusing

    fitting = [verdict for verdict in explanation.verdicts if verdict.fits]
    refusing = [verdict for verdict in explanation.verdicts if not verdict.fits]
    name = printable(f"{namespace}/{explanation.decision.guest}")
    if said:
        print_other_word(name, said)
    alone = " by itself" if explanation.gang else ""
    say(f"{len(fitting):,} of {len(explanation.verdicts):,} nodes would take {name}{alone}.")
    if explanation.gang is not None:
        say(printable(gang_line(explanation.gang)))
    if fitting:
        print_fitting(fitting, explanation.decision.host, None)
    if refusing:
        print_refusing(refusing, None)


def _as_data(namespace: str, explanation: Explanation) -> dict[str, object]:
    from hostler.kube.live.answers import candidates_as_data

    return candidates_as_data(explanation, namespace)
