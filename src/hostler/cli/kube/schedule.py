"""``hostler kube schedule``: the scheduler on a live cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from hostler.cli.kernels import kernels
from hostler.cli.kube.options import context_option, kubeconfig_option
from hostler.cli.options import FILE, examples
from hostler.errors import InputError

if TYPE_CHECKING:
    from hostler.engine import Registry
    from hostler.kube.settings import SchedulerSettings

__all__ = ["schedule"]

NOWHERE = "none"


@click.command(
    epilog=examples(
        "hostler kube schedule",
        "hostler kube schedule --scheduler-name default-scheduler --policy pack",
        "hostler kube schedule --config scheduler.yaml --kubeconfig ~/.kube/config",
    )
)
@click.option(
    "--config", metavar="FILE", type=FILE, default="", help="A Scheduler file of ours, or a KubeSchedulerConfiguration."
)
@click.option(
    "--scheduler-name",
    metavar="NAME",
    default="",
    help="Place the pods that name this scheduler.  [default: hostler-scheduler]",
)
@click.option("--policy", metavar="NAME", default="", help="The policy, without --config.  [default: kubernetes]")
@kubeconfig_option()
@context_option()
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default=None,
    help="Where probes, metrics and explanations are served; none: nowhere.  [default: 127.0.0.1:10359]",
)
@click.option(
    "--leader-elect/--no-leader-elect", default=None, help="Whether a Lease decides who schedules.  [default: yes]"
)
@click.option("--journal", metavar="FILE", default="", help="Record all facts and decisions.")
@click.option(
    "--journal-limit",
    metavar="MEGABYTES",
    type=click.IntRange(0, 1_000_000),
    default=256,
    show_default=True,
    help="Begin a new file of the journal after so much; ten are kept. 0: never.",
)
@click.option("--tls-cert", metavar="FILE", default="", help="The certificate of the address to listen on.")
@click.option("--tls-key", metavar="FILE", default="", help="The key of that certificate.")
@click.option("--insecure-listen", is_flag=True, help="Serve beyond this machine without TLS.")
@click.option("--scheduler-metrics", is_flag=True, help="Give metrics under kube-scheduler's own names too.")
@click.option("-v", "--verbose", "verbosity", count=True, help="Log every bind and refusal too; -vv: every fact too.")
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How the lines of the log, on standard error, are written.",
)
@click.option("--lenient", is_flag=True, help="Go on where a KubeSchedulerConfiguration asks for what is not done.")
def schedule(
    config: str,
    scheduler_name: str,
    policy: str,
    kubeconfig: Path | None,
    context: str,
    listen: str | None,
    leader_elect: bool | None,
    journal: str,
    journal_limit: int,
    tls_cert: str,
    tls_key: str,
    insecure_listen: bool,
    scheduler_metrics: bool,
    verbosity: int,
    log_format: Literal["text", "json"],
    lenient: bool,
) -> None:
    """Place the pods of a live cluster until told to stop.

    Pods whose spec.schedulerName is ours are bound to nodes; all others only count. SIGTERM stops cleanly, SIGHUP reads
    --config again. A lease that is lost is waited for again.
    """
    from hostler.kube.api.access import read_access

    with kernels() as compiled:
        from hostler.engine import Registry

        registry = Registry()

        def settings() -> SchedulerSettings:
            found = _settings(config, scheduler_name, policy, listen, leader_elect, lenient)
            _load_plugins(found, registry)
            return found

        wanted = settings()
        access = read_access(kubeconfig or (Path(wanted.kubeconfig) if wanted.kubeconfig else None), context)
        compiled.announce()
        from hostler.cli.kube.running import Extras, run_until_told

        if bool(tls_cert) != bool(tls_key):
            raise InputError("--tls-cert and --tls-key go together", hint="give both, or none")
        extras = Extras(
            config=config,
            journal=journal,
            journal_limit=journal_limit * 2**20,
            tls=(Path(tls_cert), Path(tls_key)) if tls_cert else None,
            is_insecure=insecure_listen,
            has_shared_metrics=scheduler_metrics,
            verbosity=verbosity,
            log_format=log_format,
        )
        run_until_told(access, wanted, extras, settings if config else None, registry)


def _settings(
    config: str, scheduler_name: str, policy: str, listen: str | None, leader_elect: bool | None, lenient: bool
) -> SchedulerSettings:
    """Read the configuration; what the command line says beats it."""
    import msgspec

    from hostler.kube.configuration import default_settings, read_settings
    from hostler.kube.configuration.election import check_election
    from hostler.kube.settings import DEFAULT_SCHEDULER_NAME, Profile

    if config and policy:
        raise InputError("--policy and --config contradict each other", hint="name the policy in the file's profiles")
    if config:
        found = read_settings(config, lenient=lenient)
        if scheduler_name and len(found.profiles) > 1:
            raise InputError(
                f"--scheduler-name {scheduler_name} is not clear: {config} has {len(found.profiles)} profiles",
                hint="name the schedulers in the file",
            )
        if scheduler_name:
            profiles = (Profile(scheduler_name, found.profiles[0].policy),)
            found = msgspec.structs.replace(found, profiles=profiles)
    else:
        found = default_settings(scheduler_name or DEFAULT_SCHEDULER_NAME, policy or "kubernetes")
    if listen is not None:
        found = msgspec.structs.replace(found, listen="" if listen == NOWHERE else listen)
    if leader_elect is not None:
        election = msgspec.structs.replace(found.election, is_on=leader_elect)
        found = msgspec.structs.replace(found, election=election)
    check_election(found)
    return found


def _load_plugins(settings: SchedulerSettings, registry: Registry) -> None:
    """Add the third parties' plugins that policies name; what they do not take is refused before it is used."""
    from hostler.cli.plugins import registry_for
    from hostler.engine import Engine
    from hostler.kube.configuration import with_mixes

    found = registry_for(settings.policies)
    Engine(with_mixes(settings.policies), registry=found)
    registry.extra.update(found.extra)
