"""Runs a scheduler in an event loop of its own until a signal ends it; used by ``schedule``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import uvloop

from hostler.cli.terminal import note
from hostler.kube.api.client import Client
from hostler.kube.api.http import AiohttpTransport
from hostler.kube.scheduler.journal_files import JournalFiles
from hostler.kube.scheduler.main import Pages, run_scheduler
from hostler.kube.scheduler.telling import tell_start
from hostler.kube.service.serving import check_listen, is_reachable, open_service
from hostler.telemetry.log import Format, Log

if TYPE_CHECKING:
    from hostler.engine import Registry
    from hostler.kube.api.access import Access
    from hostler.kube.api.clock import Clock
    from hostler.kube.scheduler.executor import Executor
    from hostler.kube.scheduler.process import Scheduler
    from hostler.kube.settings import SchedulerSettings

__all__ = ["Extras", "run_until_told"]


class Extras(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line adds to the settings."""

    config: str = ""  # the file that the settings come from
    journal: str = ""
    journal_limit: int = 0
    tls: tuple[Path, Path] | None = None  # certificate and key
    is_insecure: bool = False
    has_shared_metrics: bool = False
    verbosity: int = 0
    log_format: Format = "text"


def run_until_told(
    access: Access,
    settings: SchedulerSettings,
    extras: Extras,
    reread: Callable[[], SchedulerSettings] | None,
    registry: Registry,
) -> None:
    """Schedule on the cluster that ``access`` leads to, with the plugins of ``registry``."""

    def connect() -> Client:
        connections = settings.limits.max_in_flight + 64  # beside binds: watches, events, the lease
        return Client(AiohttpTransport(access, max_connections=connections), user_agent="hostler-scheduler")

    log = Log(lambda line: note(line, label=""), verbosity=extras.verbosity, form=extras.log_format)

    def pages(
        scheduler: Scheduler, client: Client, executor: Executor, clock: Clock
    ) -> AbstractAsyncContextManager[Pages]:
        return open_service(
            scheduler,
            client,
            settings.listen,
            executor=executor,
            clock=clock,
            tls=extras.tls,
            is_insecure=extras.is_insecure,
            with_shared_metrics=extras.has_shared_metrics,
            say=log.info,
        )

    if settings.listen:
        check_listen(settings.listen, has_tls=extras.tls is not None, is_insecure=extras.is_insecure)
    tell_start(log, settings, extras.config)
    if settings.listen and extras.tls is None and is_reachable(settings.listen):
        log.warn(
            "tokens that are sent to the pages can be read on their way: --insecure-listen", listen=settings.listen
        )
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
