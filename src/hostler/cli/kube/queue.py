"""``hostler kube queue``: the waiting pods, why they wait, and when they are tried again."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hostler.cli.kube.options import cluster_options, namespace_option, needs_kube, via_option
from hostler.cli.options import examples, output_option
from hostler.cli.output.terminal import Column, note, print_data, print_table, say

if TYPE_CHECKING:
    from hostler.kube.api.access import Access
    from hostler.kube.settings import SchedulerSettings

__all__ = ["queue"]

FROM_API = "read from the API; --via asks the scheduler itself, which knows queues and next tries"


@click.command(
    epilog=examples("hostler kube queue", "hostler kube queue --via http://127.0.0.1:10359 -o json"),
    short_help="Show the pods that wait, and why.",
)
@namespace_option("Only pods of this namespace.")
@via_option()
@cluster_options()
@output_option("table", "json", "yaml")
def queue(
    namespace: str, via: str, kubeconfig: Path | None, context: str, config: str, policy: str, output: str
) -> None:
    """Show the waiting pods of our profiles: state, age, reason, and time of the next try.

    A gated pod has scheduling gates; a gathering pod belongs to an incomplete gang. With --via the running scheduler
    answers. Without it, reasons come from the conditions that it wrote, and queues and next tries are unknown.
    """
    with needs_kube():
        from hostler.kube.api.access import read_access

    from hostler.cli.kernels import kernels

    with kernels():
        from hostler.cli.kube.live import live_settings

        access = read_access(kubeconfig, context)
        if via:
            from hostler.kube.live.via import ask_scheduler

            query = {"namespace": namespace} if namespace else {}
            data = asyncio.run(ask_scheduler(access, via, "/v1/queue", query=query))
        else:
            note(FROM_API)
            data = asyncio.run(_from_api(access, live_settings(config, policy), namespace))
    if output == "table":
        _print(data)
    else:
        print_data(data, output)


async def _from_api(access: Access, settings: SchedulerSettings, namespace: str) -> dict[str, Any]:
    from hostler.kube.api.client import KubeClient, UndecodableObject
    from hostler.kube.api.failures import ApiError
    from hostler.kube.api.http import AiohttpTransport
    from hostler.kube.api.resources import PODS
    from hostler.kube.facts.views import created_at, has_ended, scheduler_of, view_of
    from hostler.kube.live.answers import queue_row
    from hostler.kube.live.listings import UNSCHEDULABLE, missing_right
    from hostler.kube.scheduler.messages import is_gathering

    client = KubeClient(AiohttpTransport(access, max_connections=4), user_agent="hostler-cli")
    try:
        listing = await client.list(PODS, namespace, fields="spec.nodeName=")
    except ApiError as error:
        raise (missing_right("list", "pods", error) if error.is_forbidden else error) from error
    finally:
        await client.close()
    ours, now = {profile.scheduler_name for profile in settings.profiles}, time.time_ns()  # noqa: TID251 - ages
    rows: list[dict[str, Any]] = []
    for pod in listing.items:
        if isinstance(pod, UndecodableObject) or has_ended(pod) or scheduler_of(pod) not in ours:
            continue
        view = view_of(
            pod, is_ours=True, group="", priority=pod.spec.priority or 0, created=created_at(pod), problem=""
        )
        state = {UNSCHEDULABLE: "unschedulable", "": "new"}.get(view.condition[0], "error")
        state = "gated" if view.is_gated else "gathering" if is_gathering(view.condition[1]) else state
        rows.append(queue_row(view, now, state, ""))
    rows.sort(key=lambda row: (-row["priority"], -(row["age_s"] or 0), row["name"]))
    return {"pods": rows, "total": len(rows), "from": "api"}


def _print(data: dict[str, Any]) -> None:
    if not data["pods"]:
        say("no pod waits")
        return
    columns: list[Column] = [("POD", "left"), ("STATE", "left"), ("PRIORITY", "right"), ("AGE", "right")]
    columns += [("TRIES", "right"), ("NEXT TRY", "left"), ("REASON", "left")]
    rows = [
        [
            f"{row['namespace']}/{row['name']}",
            str(row["state"]),
            str(row["priority"]),
            _age(row["age_s"]),
            "-" if row["attempts"] is None else str(row["attempts"]),
            row["next_try"] or "-",
            (f"kept for it: {row['nominated']}; " if row["nominated"] else "") + (row["reason"] or ""),
        ]
        for row in data["pods"]
    ]
    print_table(columns, rows)
    if data["total"] > len(rows):
        say(f"… and {data['total'] - len(rows):,} more")


def _age(seconds: int | None) -> str:
    if seconds is None:
        return "-"
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{max(seconds, 0)}s"
