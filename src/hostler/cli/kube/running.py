"""Runs a scheduler in an event loop of its own until a signal ends it; used by ``schedule``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop

from hostler.cli.terminal import note
from hostler.kube.api.client import Client
from hostler.kube.api.http import AiohttpTransport
from hostler.kube.scheduler.main import run_scheduler
from hostler.kube.scheduler.process import Ending

if TYPE_CHECKING:
    from hostler.kube.api.access import Access
    from hostler.kube.settings import SchedulerSettings

__all__ = ["run_until_told"]


def run_until_told(
    access: Access, settings: SchedulerSettings, *, journal: str, reread: Callable[[], SchedulerSettings] | None
) -> Ending:
    """Schedule on the cluster that ``access`` leads to."""

    def connect() -> Client:
        connections = settings.limits.max_in_flight + 64  # beside binds: watches, events, the lease
        return Client(AiohttpTransport(access, max_connections=connections), user_agent="hostler-scheduler")

    with ExitStack() as files:
        write = files.enter_context(Path(journal).open("ab")).write if journal else None
        return uvloop.run(
            run_scheduler(connect, settings, say=lambda text: note(text, label=""), journal=write, reread=reread)
        )
