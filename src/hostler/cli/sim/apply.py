"""``hostler sim apply``: the configuration files of ``simon apply``, run on the engine."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from hostler.cli.completion import complete_policy
from hostler.cli.kernels import kernels
from hostler.cli.options import FILE, examples, output_option, plugin_option
from hostler.cli.output.terminal import note, print_data, print_table, say
from hostler.cli.sim.options import data_dir_option, policy_and_registry
from hostler.cli.sim.score_service import service_options, show_questions
from hostler.errors import UnavailableError
from hostler.model.vocabulary import plural

if TYPE_CHECKING:
    from hostler.engine import Registry
    from hostler.model import Policy
    from hostler.sim.scorer.client import ClientOptions
    from hostler.sim.scorer.placer import OnFailure, ServiceUse
    from hostler.sim.scorer.protocol import Variant
    from hostler.sim.simon import SimonResult
    from hostler.sim.simon.summary import StageSummary

__all__ = ["apply"]

_RULE = "=" * 10
_ENDPOINT = "http://localhost:5000/score"  # the default of the seed's plugin, and its variable
_ENDPOINT_VARIABLE = "RL_SCHEDULER_ENDPOINT"


@click.command(
    epilog=examples(
        "hostler sim apply -f cluster-config.yaml -s scheduler-config.yaml --extended-resources gpu",
        "hostler sim apply -f cluster-config.yaml --policy gpu_packing -o json",
        "hostler sim apply -f cluster-config.yaml -s rl.yaml --endpoint http://127.0.0.1:5000/score",
    )
)
@click.option(
    "-f", "--simon-config", "cluster", metavar="FILE", type=FILE, required=True, help="The cluster configuration."
)
@click.option(
    "-s",
    "--default-scheduler-config",
    "scheduler",
    metavar="FILE",
    type=FILE,
    default="",
    help="The scheduler configuration.",
)
@click.option(
    "--policy",
    metavar="NAME",
    default="",
    shell_complete=complete_policy,
    help="A policy of ours instead; see 'hostler policies'.",
)
@plugin_option()
@click.option(
    "-e",
    "--extended-resources",
    metavar="LIST",
    default="gpu",
    show_default=True,
    help="What is counted beside cpu and memory; only gpu is known.",
)
@click.option("-i", "--interactive", is_flag=True, hidden=True, help="Not supported.")
@click.option("--use-greed", is_flag=True, hidden=True, help="Has no effect, there as here.")
@click.option(
    "--endpoint",
    metavar="URL",
    default=None,
    help="With RLSchedulerScore: the service to ask about every pod.  [default: 'endpoint' of its arguments in the "
    f"scheduler configuration, then the variable {_ENDPOINT_VARIABLE}, then {_ENDPOINT}]",
)
@click.option(
    "--on-failure",
    type=click.Choice(["stop", "skip", "fail"]),
    default="stop",
    show_default=True,
    help="Without a usable answer: stop with an error, decide without it, or drop the pod.",
)
@service_options()
@data_dir_option()
@output_option("table", "json", "yaml")
def apply(
    cluster: str,
    scheduler: str,
    policy: str,
    plugins: tuple[Path, ...],
    extended_resources: str,
    interactive: bool,
    use_greed: bool,
    endpoint: str | None,
    on_failure: OnFailure,
    variant: Variant,
    missing: Literal["zero", "refuse"],
    timeout_s: float,
    retries: int,
    data_dir: Path | None,
    output: str,
) -> None:
    """Run the configuration files of simon apply, the simulator of the FGD experiments.

    Pods of a folder arrive one by one, shuffled and tuned as the files say, and who fits nowhere is dropped. Then come
    inflation, descheduling and apps. Keys that do not count are told.

    With RLSchedulerScore a service scores the nodes of every pod; 'hostler sim scorer serve' starts one.
    """
    _check_flags(extended_resources, interactive, use_greed)
    if scheduler and policy:
        raise click.UsageError("give -s or --policy, not both")
    if plugins and not policy:
        raise click.UsageError("--plugin brings policies for --policy: name one of them there")
    with kernels() as compiled, ExitStack() as open_clients:
        from hostler.sim import simon
        from hostler.sim.scorer.client import ClientOptions

        config = simon.read_cluster_config(cluster, _warn)
        if scheduler:
            (chosen, named), registry = simon.read_scheduler_config(scheduler, _warn), None
        else:
            (chosen, registry), named = _policy(policy, plugins), ""
        service = None
        if chosen.ask is not None:
            address = endpoint or named or os.environ.get(_ENDPOINT_VARIABLE) or _ENDPOINT
            options = ClientOptions(
                endpoint=address, variant=variant, missing=missing, timeout_s=timeout_s, retries=retries
            )
            service = _service(options, on_failure, open_clients)
        elif endpoint is not None:
            raise click.UsageError("--endpoint is for a scheduler configuration that enables RLSchedulerScore")
        compiled.announce()
        result = simon.apply_simon_config(
            config, chosen, _warn, _write, data_dir=data_dir, registry=registry, service=service
        )
    if output != "table":
        import msgspec

        print_data(msgspec.to_builtins(result), output)
    else:
        _show(result)
        if result.questions is not None:
            say()
            show_questions(result.questions, on_failure)
    _check_answers(result, service)


def _service(options: ClientOptions, on_failure: OnFailure, open_clients: ExitStack) -> ServiceUse:
    from hostler.sim.scorer.client import ScorerClient
    from hostler.sim.scorer.placer import ServiceUse

    return ServiceUse(open_clients.enter_context(ScorerClient(options)), on_failure)


def _check_answers(result: SimonResult, service: ServiceUse | None) -> None:
    """Fail if a service was asked and never gave a usable answer: then its scores had no part in the result."""
    questions = result.questions
    if service is not None and questions is not None and questions.asked and not questions.answered:
        raise UnavailableError(
            f"{service.client.options.endpoint} gave no usable answer", hint="see the failures above; is it up?"
        )


def _policy(name: str, plugins: tuple[Path, ...]) -> tuple[Policy, Registry]:
    if not name:
        note("without -s the policy is fgd; simon would take its own score 'Simon', which is not here")
    return policy_and_registry(name or "fgd", plugins)


def _check_flags(resources: str, interactive: bool, use_greed: bool) -> None:
    unknown = [name for name in resources.split(",") if name not in ("", "gpu")]
    if unknown:
        raise click.UsageError(f"--extended-resources: {unknown[0]!r} is not supported; only gpu is")
    if interactive:
        raise click.UsageError("--interactive is not supported: name all apps in appList")
    if use_greed:
        _warn("--use-greed does not count")


def _warn(text: str) -> None:
    note(text, label="warning: ")


def _write(path: Path, content: bytes) -> None:
    from hostler.cli.files import atomic_file
    from hostler.cli.output.streams import write_error

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(str(path), error) from None
    with atomic_file(str(path)) as write:
        write(content)


def _show(result: SimonResult) -> None:
    order = "published order" if result.is_published_order else "our own order"
    say(f"{result.name}: policy {result.policy}, seed {result.seed}, {order}")
    pods = f"{plural(result.workload_pods, 'pod')}, {plural(result.typical_pods, 'typical one')}"
    say(f"{plural(result.nodes, 'node')}, {pods}")
    say(f"{plural(result.events, 'event')}, {result.failed:,} failed")
    for stage in result.stages:
        say()
        _show_stage(stage)
    for file in result.files:
        note(f"wrote {file}", label="")


def _show_stage(stage: StageSummary) -> None:
    say(f"{_RULE} Cluster Analysis Results ({stage.tag}) {_RULE}")
    say(f"{plural(stage.pods, 'pod')} running; {stage.arrived:,} arrived, {stage.failed:,} failed")
    shares = [
        ("MilliCpu", stage.milli_cpu),
        ("Memory", stage.memory_bytes),
        ("Gpu", stage.gpus),
        ("MilliGpu", stage.milli_gpu),
    ]
    rows = [(name, f"{100 * used / max(whole, 1):.2f}%", str(used), str(whole)) for name, (used, whole) in shares]
    print_table([("ALLOCATED", "left"), ("SHARE", "right"), ("AMOUNT", "right"), ("OF", "right")], rows)
    idle = stage.fragmentation.get("idle", 0.0)
    if idle:
        say()
        classes = [
            (name, f"{amount / 1000:.2f} x 10^3", f"{100 * amount / idle:.2f}%")
            for name, amount in stage.fragmentation.items()
        ]
        print_table([("IDLE GPU MILLI", "left"), ("AMOUNT", "right"), ("SHARE", "right")], classes)
    failed = [(kind.replace("_", " "), str(count)) for kind, count in stage.failed_by_kind.items() if count]
    if failed:
        say()
        print_table([("FAILED", "left"), ("PODS", "right")], failed)
