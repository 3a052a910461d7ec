"""``hostler kube schedule``: the scheduler for a live cluster, from its options to the end by a signal.

Options override the file. The scheduler is imported when the command runs.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click
import msgspec

from hostler.cli.completion import complete_policy
from hostler.cli.kernels import kernels
from hostler.cli.kube.options import context_option, kubeconfig_option
from hostler.cli.options import FILE, examples
from hostler.cli.output.terminal import note
from hostler.errors import InputError

if TYPE_CHECKING:
    from hostler.engine import Registry
    from hostler.kube.api.access import Access
    from hostler.kube.api.client import KubeClient
    from hostler.kube.scheduler.main import SchedulerDisplay
    from hostler.kube.scheduler.process import Scheduler
    from hostler.kube.settings import SchedulerSettings
    from hostler.runtime.clock import Clock
    from hostler.runtime.engine_thread import Executor
    from hostler.telemetry.log import Format

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
    "--config", metavar="FILE", type=FILE, default="", help="A file of kind Scheduler, or a KubeSchedulerConfiguration."
)
@click.option(
    "--scheduler-name",
    metavar="NAME",
    default="",
    help="Place the pods that name this scheduler.  [default: hostler-scheduler]",
)
@click.option(
    "--policy",
    metavar="NAME",
    default="",
    shell_complete=complete_policy,
    help="The policy, if there is no --config.  [default: kubernetes]",
)
@kubeconfig_option()
@context_option()
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default=None,
    help="Address of probes, metrics and explanations, or none.  [default: 127.0.0.1:10359]",
)
@click.option(
    "--leader-elect/--no-leader-elect", default=None, help="Whether a Lease elects the leader.  [default: yes]"
)
@click.option(
    "--lease-namespace",
    metavar="NAMESPACE",
    default="",
    help="The namespace of the Lease, instead of election.namespace of --config.  [default: kube-system]",
)
@click.option("--journal", metavar="FILE", default="", help="Record all facts and decisions.")
@click.option(
    "--journal-limit",
    metavar="MEGABYTES",
    type=click.IntRange(0, 1_000_000),
    default=256,
    show_default=True,
    help="Begin a new journal file at this size; ten are kept. 0: never.",
)
@click.option("--tls-cert", metavar="FILE", default="", help="The certificate of the pages.")
@click.option("--tls-key", metavar="FILE", default="", help="The key of the certificate.")
@click.option("--insecure-listen", is_flag=True, help="Allow listening beyond this machine without TLS.")
@click.option("--scheduler-metrics", is_flag=True, help="Serve metrics under kube-scheduler's own names too.")
@click.option("-v", "--verbose", "verbosity", count=True, help="Log every bind and rejection too; -vv: every fact too.")
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="The format of the log on standard error.",
)
@click.option("--lenient", is_flag=True, help="Accept a KubeSchedulerConfiguration with unsupported settings.")
def schedule(
    config: str,
    scheduler_name: str,
    policy: str,
    kubeconfig: Path | None,
    context: str,
    listen: str | None,
    leader_elect: bool | None,
    lease_namespace: str,
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
    """Place the pods of a live cluster until stopped.

    Pods whose spec.schedulerName is ours are bound to nodes; the room of all others is counted. SIGTERM stops cleanly,
    SIGHUP reads --config again. After a lost lease, the process waits for it again.
    """
    from hostler.kube.api.access import read_access
    from hostler.kube.configuration.election import check_election

    with kernels() as compiled:
        from hostler.engine import Registry

        registry = Registry()

        def settings() -> SchedulerSettings:
            found = _settings(config, scheduler_name, policy, lenient=lenient)
            found = _with_options(found, listen, leader_elect, lease_namespace)
            check_election(found)
            _load_plugins(found, registry)
            return found

        wanted = settings()
        access = read_access(kubeconfig or (Path(wanted.kubeconfig) if wanted.kubeconfig else None), context)
        compiled.announce()
        if bool(tls_cert) != bool(tls_key):
            raise InputError("--tls-cert and --tls-key go together", hint="give both, or none")
        extras = _Extras(
            config=config,
            journal=journal,
            journal_limit=journal_limit * 2**20,
            tls=(Path(tls_cert), Path(tls_key)) if tls_cert else None,
            is_insecure=insecure_listen,
            has_shared_metrics=scheduler_metrics,
            verbosity=verbosity,
            log_format=log_format,
        )
        _run(access, wanted, extras, settings if config else None, registry)


def _settings(config: str, scheduler_name: str, policy: str, *, lenient: bool) -> SchedulerSettings:
    """Read the configuration; the names of scheduler and policy override it."""
    import msgspec

    from hostler.kube.configuration import default_settings, read_settings
    from hostler.kube.settings import DEFAULT_SCHEDULER_NAME, SchedulerProfile

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
            profiles = (SchedulerProfile(scheduler_name, found.profiles[0].policy),)
            found = msgspec.structs.replace(found, profiles=profiles)
    else:
        found = default_settings(scheduler_name or DEFAULT_SCHEDULER_NAME, policy or "kubernetes")
    return found


def _with_options(
    settings: SchedulerSettings, listen: str | None, leader_elect: bool | None, lease_namespace: str
) -> SchedulerSettings:
    """Return settings with the options that override them."""
    import msgspec

    election = settings.election
    if leader_elect is not None:
        election = msgspec.structs.replace(election, is_on=leader_elect)
    if lease_namespace:
        election = msgspec.structs.replace(election, namespace=lease_namespace)
    if listen is None:
        listen = settings.listen
    return msgspec.structs.replace(settings, election=election, listen="" if listen == NOWHERE else listen)


def _load_plugins(settings: SchedulerSettings, registry: Registry) -> None:
    """Add the third-party plugins that policies name; reject invalid arguments before use."""
    from hostler.engine import Engine
    from hostler.queries import with_mixes
    from hostler.runtime.plugins import registry_for

    found = registry_for(settings.policies)
    Engine(with_mixes(settings.policies), registry=found)
    registry.extra.update(found.extra)


class _Extras(msgspec.Struct, frozen=True, kw_only=True):
    """Options beside the settings."""

    config: str = ""  # the file of the settings
    journal: str = ""
    journal_limit: int = 0
    tls: tuple[Path, Path] | None = None  # certificate and key
    is_insecure: bool = False
    has_shared_metrics: bool = False
    verbosity: int = 0
    log_format: Format = "text"


def _run(
    access: Access,
    settings: SchedulerSettings,
    extras: _Extras,
    reread: Callable[[], SchedulerSettings] | None,
    registry: Registry,
) -> None:
    """Schedule on the cluster of ``access`` with the plugins of ``registry``, until a signal ends it."""
    import uvloop

    from hostler.kube.api.client import KubeClient
    from hostler.kube.api.http import AiohttpTransport
    from hostler.kube.scheduler.journal_files import JournalFiles
    from hostler.kube.scheduler.main import run_scheduler
    from hostler.kube.scheduler.notices import log_start
    from hostler.kube.service.server import check_listen, is_reachable, open_service
    from hostler.telemetry.log import Log

    def connect() -> KubeClient:
        connections = settings.limits.max_in_flight + 64  # beside binds: watches, events, the lease
        return KubeClient(AiohttpTransport(access, max_connections=connections), user_agent="hostler-scheduler")

    log = Log(lambda line: note(line, label=""), verbosity=extras.verbosity, form=extras.log_format)

    def pages(
        scheduler: Scheduler, client: KubeClient, executor: Executor, clock: Clock
    ) -> AbstractAsyncContextManager[SchedulerDisplay]:
        return open_service(
            scheduler,
            client,
            settings.listen,
            executor=executor,
            clock=clock,
            tls=extras.tls,
            is_insecure=extras.is_insecure,
            with_shared_metrics=extras.has_shared_metrics or settings.scheduler_metrics,
            say=log.info,
        )

    if settings.listen:
        check_listen(settings.listen, has_tls=extras.tls is not None, is_insecure=extras.is_insecure)
    log_start(log, settings, extras.config)
    if settings.listen and extras.tls is None and is_reachable(settings.listen):
        log.warn("tokens can be read on the network: --insecure-listen", listen=settings.listen)
    with ExitStack() as files:
        journal = None
        if extras.journal:
            journal = JournalFiles(Path(extras.journal), limit=extras.journal_limit, warn=log.warn)
            files.enter_context(closing(journal))
        uvloop.run(
            run_scheduler(
                connect,
                settings,
                log=log,
                journal=journal,
                serve=pages if settings.listen else None,
                reread=reread,
                registry=registry,
            )
        )
