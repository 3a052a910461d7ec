"""``hostler sim scorer``: a service that scores hosts by a network, and experiments against such a service."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import click

from hostler.cli.completion import complete_policy
from hostler.cli.kernels import kernels
from hostler.cli.options import examples, output_option, plugin_option
from hostler.cli.output.terminal import note, print_data, say
from hostler.cli.sim.options import (
    data_dir_option,
    policy_and_registry,
    seed_option,
    tune_option,
    workload_option,
)
from hostler.cli.sim.score_service import service_options, show_questions
from hostler.errors import UnavailableError
from hostler.model.policies import DeviceRule
from hostler.model.vocabulary import plural

if TYPE_CHECKING:
    from hostler.sim.fill_experiment import FillExperiment, FillResult
    from hostler.sim.scorer.protocol import Variant
    from hostler.sim.scorer.run import OnFailure, ServiceRun

__all__ = ["scorer"]

MAX_PORT = 65535


@click.group(
    epilog=examples("hostler sim scorer serve", "hostler sim scorer run --endpoint http://127.0.0.1:5000/score"),
)
def scorer() -> None:
    """Score hosts by a network of your own, or by one over HTTP."""


@scorer.command(epilog=examples("hostler sim scorer serve", "hostler sim scorer serve --model mine.safetensors"))
@click.option(
    "--model",
    metavar="FILE",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    default=None,
    help="The network's weights (safetensors).  [default: the one that comes with the package]",
)
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    metavar="N",
    type=click.IntRange(0, MAX_PORT),
    default=5000,
    show_default=True,
    help="The port to listen on; 0 takes a free one.",
)
def serve(model: Path | None, host: str, port: int) -> None:
    """Answer POST /score with a network's scores until interrupted.

    Any client that reaches the address may ask: there is no password.
    """
    from hostler.sim.scorer.plugin import network_at
    from hostler.sim.scorer.service import ScoringService, serve_until_signal

    network = network_at(model)
    with ScoringService(network, host, port) as service:
        address = f"{network.name} answers at {service.endpoint}"
        serve_until_signal(service, lambda: say(address))
    note("stopped", label="")


@scorer.command(
    epilog=examples(
        "hostler sim scorer run --endpoint http://127.0.0.1:5000/score --workload gpuspec33",
        "hostler sim scorer run --model mine.safetensors --seed 43 -o json",
    )
)
@click.option("--endpoint", metavar="URL", default=None, help="The service to ask about every guest.")
@click.option(
    "--model",
    metavar="FILE",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    default=None,
    help="A network's weights, to score in process.  [default without --endpoint: the one of the package]",
)
@click.option(
    "--devices",
    type=click.Choice(get_args(DeviceRule)),
    default="best",
    show_default=True,
    help="With --endpoint: which GPUs of the chosen node are taken.",
)
@click.option(
    "--on-failure",
    type=click.Choice(["skip", "fail", "fall_back", "stop"]),
    default="skip",
    show_default=True,
    help="Without a usable answer: decide without it, refuse the guest, use --fall-back, or stop with an error.",
)
@click.option(
    "--fall-back",
    metavar="NAME",
    default=None,
    shell_complete=complete_policy,
    help="The policy of --on-failure fall_back.",
)
@plugin_option()
@service_options()
@workload_option()
@seed_option()
@tune_option()
@data_dir_option()
@output_option("table", "json", "yaml")
def run(
    endpoint: str | None,
    model: Path | None,
    variant: Variant,
    devices: DeviceRule,
    on_failure: OnFailure,
    fall_back: str | None,
    plugins: tuple[Path, ...],
    missing: Literal["zero", "refuse"],
    timeout_s: float,
    retries: int,
    workload: str,
    seed: int,
    tune: float,
    data_dir: Path | None,
    output: str,
) -> None:
    """Run an openb experiment with the scores of a service, or of a network in process."""
    if endpoint is not None and model is not None:
        raise click.UsageError("give --endpoint or --model, not both")
    if (on_failure == "fall_back") != (fall_back is not None):
        raise click.UsageError("--on-failure fall_back and --fall-back NAME go together")
    if plugins and fall_back is None:
        raise click.UsageError("--plugin brings policies for --fall-back: name one of them there")
    with kernels() as compiled:
        from hostler.sim.openb import openb_experiment

        experiment = openb_experiment(workload, seed, tune=tune, data_dir=data_dir)
        compiled.announce()
        if endpoint is None:
            _tell(_in_process(experiment, model, seed), None, output)
            return
        from hostler.sim.scorer.client import ClientOptions, ScorerClient
        from hostler.sim.scorer.run import fill_with_service, service_only_policy

        options = ClientOptions(
            endpoint=endpoint, variant=variant, missing=missing, timeout_s=timeout_s, retries=retries
        )
        other, registry = policy_and_registry(fall_back, plugins) if fall_back is not None else (None, None)
        policy = service_only_policy(experiment, devices)
        with ScorerClient(options) as client:
            asked = fill_with_service(
                experiment, policy, client, seed, on_failure=on_failure, fall_back=other, registry=registry
            )
    _tell(asked.result, asked, output)
    if asked.questions.asked and not asked.questions.answered:
        raise UnavailableError(f"{endpoint} gave no usable answer", hint="see the failures above; is the service up?")


def _in_process(experiment: FillExperiment, model: Path | None, seed: int) -> FillResult:
    from hostler.engine import Registry
    from hostler.sim.fill_experiment import run_fill_experiment
    from hostler.sim.scorer.plugin import MlpScorer, mlp_policy

    return run_fill_experiment(experiment, mlp_policy(model), seed, Registry({MlpScorer.name: MlpScorer}))


def _tell(result: FillResult, asked: ServiceRun | None, output: str) -> None:
    if output != "table":
        import msgspec

        print_data(msgspec.to_builtins(asked or result), output)
        return
    gpu = 100 * result.gpu_milli_allocated / max(result.gpu_milli_total, 1)
    cpu = 100 * result.cpu_milli_allocated / max(result.cpu_milli_total, 1)
    say(f"{result.workload}, policy {result.policy}, seed {result.seed}")
    say(f"{plural(result.events, 'arrival')}, {result.events - result.failed:,} placed, {result.failed:,} failed")
    say(f"allocated: GPU {gpu:.2f}%, CPU {cpu:.2f}%; {plural(result.gpus_touched, 'GPU')} in use")
    if asked is None:
        return
    show_questions(asked.questions, asked.on_failure)
