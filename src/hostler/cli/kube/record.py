"""``hostler journal record``: follow a live cluster for a while and record what a policy would do."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Callable
from pathlib import Path

import msgspec

from hostler.cli.files import atomic_file, load_journal
from hostler.cli.output.terminal import note
from hostler.engine.journals.journal import write_journal
from hostler.engine.journals.redaction import redact
from hostler.kube.api.access import Access
from hostler.kube.api.client import KubeClient
from hostler.kube.api.http import AiohttpTransport
from hostler.kube.facts.views import DEFAULT_SCHEDULER
from hostler.kube.live.shadow import Shadow, ShadowCounts
from hostler.kube.scheduler.journal_files import JournalFiles
from hostler.kube.settings import SchedulerProfile, SchedulerSettings
from hostler.runtime.clock import SteadyClock
from hostler.runtime.plugins import registry_for

__all__ = ["RecordingSummary", "record_cluster", "with_default_scheduler"]


class RecordingSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a recording."""

    counts: ShadowCounts
    files: dict[str, int]  # the size of each existing file, the oldest first
    is_whole: bool  # whether the journal is complete


def with_default_scheduler(settings: SchedulerSettings) -> SchedulerSettings:
    """Include the default scheduler's pods: a shadow is compared with the scheduler of the cluster."""
    if any(profile.scheduler_name == DEFAULT_SCHEDULER for profile in settings.profiles):
        return settings
    more = SchedulerProfile(DEFAULT_SCHEDULER, settings.profiles[0].policy)
    return msgspec.structs.replace(settings, profiles=(*settings.profiles, more))


def record_cluster(
    access: Access, settings: SchedulerSettings, path: Path, *, seconds: float | None, limit: int, keep: int, hide: bool
) -> RecordingSummary:
    """Follow until the time is up or a signal comes; ``hide``: replace all names in the kept files."""
    files = JournalFiles(
        path,
        limit=limit,
        keep=keep,
        current=path.with_name(f".{path.name}.unredacted") if hide else None,
        warn=note,
        finished=_redact if hide else lambda finished: None,
    )
    if files.earlier is not None:
        note(f"{path} existed already; it was renamed to {files.earlier.name} now")
    try:
        counts = asyncio.run(_follow(access, settings, files, seconds))
    finally:
        files.close()
    sizes = {str(file): file.stat().st_size for file in files.files}
    return RecordingSummary(counts=counts, files=sizes, is_whole=not files.is_stopped)


async def _follow(
    access: Access, settings: SchedulerSettings, files: JournalFiles, seconds: float | None
) -> ShadowCounts:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        _on_signal(loop, number, stop.set)

    def begin() -> None:
        if seconds is not None:
            loop.call_later(seconds, stop.set)

    client = KubeClient(AiohttpTransport(access, max_connections=32), user_agent="hostler-recorder")
    shadow = Shadow(
        client,
        settings,
        files,
        clock=SteadyClock(),
        random=random.Random(os.urandom(8)),
        registry=registry_for(settings.policies),
        say=lambda text: note(text, label=""),
        # The time counts from the sync: before, there is nothing to record.
        on_open=begin,
    )
    try:
        await shadow.run(stop)
    finally:
        await client.close()
    return shadow.counts


def _on_signal(loop: asyncio.AbstractEventLoop, number: int, act: Callable[[], None]) -> None:
    """Handle a signal. Outside the main thread that is impossible, and signals end the process as usual."""
    try:
        loop.add_signal_handler(number, act)
    except (RuntimeError, ValueError):
        return


def _redact(path: Path) -> None:
    """Replace all names in a finished file."""
    found = load_journal(str(path))
    redacted = redact(found, registry_for(found.header.policies))
    with atomic_file(str(path)) as write:
        write_journal(redacted, write)
    path.chmod(0o600)  # like every journal of a cluster: its owner decides who may read it
