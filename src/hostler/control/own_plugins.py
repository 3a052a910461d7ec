"""Plugins of the operator in a live service: loaded once, watched over, and taken out of service if they fail.

Every call of a plugin runs on a thread of its own with a deadline. The engine's thread waits for the answer, so a
plugin that hangs costs one deadline and not the service. The thread of a plugin that hangs gets an exception. If it
does not end (because it waits in C code), it is given up: a daemon thread, which does not delay the end. A plugin that
never releases the interpreter's lock cannot be contained.

What a failure means for the log, and so for all replicas:

- The log has only steps in which no plugin failed. The leader undoes a step in which one did, and writes nothing of it.
- Instead it writes a fact that changes the policy: ``with_out_of_service`` puts the filter ``out_of_service`` in place
  of everything that the policy did. So every replica reads the failure, and none has to fail in the same way.
- Repeating a step from the log calls the plugins again, and the digest of the step must be met. So all replicas need
  the same plugins, and a plugin must answer the same question alike, today and after a restart.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TypeVar, cast

import msgspec
import numpy as np

from hostler.control.settings import ControlSettings, policies_for
from hostler.engine import Engine, Registry
from hostler.engine.framework import Factory
from hostler.engine.kernels.layout import Int64s
from hostler.engine.policy.adapters import failure_of
from hostler.errors import PluginError
from hostler.model import GuestSpec, PluginUse, Policy
from hostler.runtime.plugin_files import load_plugin_files
from hostler.runtime.plugins import registry_for

__all__ = ["OwnPluginSet", "check_own_policies", "with_out_of_service"]

T = TypeVar("T")

_MOST_WHY = 300  # characters of an error in the reason of every VM


class OwnPluginSet:
    """The plugins that the settings name. ``registry`` has them for engines; it is empty if there are none."""

    def __init__(self, settings: ControlSettings) -> None:
        files = load_plugin_files(Path(file) for file in settings.plugin_files)
        found = registry_for(settings.own_policies, files.factories)
        self._thread = _PluginThread(settings.plugin_deadline_s)
        self._failures: SimpleQueue[PluginError] = SimpleQueue()
        self.registry = Registry({name: self._guarded(name, factory) for name, factory in found.extra.items()})

    def concern(self, policies: Iterable[Policy]) -> bool:
        """Say whether any of these policies calls one of the plugins."""
        return bool(self.registry.extra) and any(not _uses(one).isdisjoint(self.registry.extra) for one in policies)

    def forget_failures(self) -> None:
        """Forget failures, before a step."""
        self.take_failure()

    def take_failure(self) -> PluginError | None:
        """Return the first failure since they were forgotten; an engine may go on after one with what it decided."""
        first: PluginError | None = None
        while True:
            try:
                failure = self._failures.get_nowait()
            except Empty:
                return first
            first = first or failure

    def _guarded(self, name: str, factory: Factory) -> Factory:
        def make(view: object, args: Mapping[str, object]) -> object:
            return _GuardedPlugin(name, self._call(name, lambda: factory(view, args)), self._call)  # type: ignore[arg-type]

        return cast(Factory, make)

    def _call(self, name: str, work: Callable[[], T]) -> T:
        try:
            return self._thread.call(name, work)
        except PluginError as failure:
            failure.plugin = name
            self._failures.put(failure)
            raise


class _GuardedPlugin:
    """A plugin whose ``evaluate`` is watched over; everything else is the plugin's own."""

    def __init__(self, name: str, plugin: object, call: Callable[[str, Callable[[], object]], object]) -> None:
        self._own_name = name
        self._plugin = plugin
        self._call = call

    def __getattr__(self, attribute: str) -> object:
        return getattr(self._plugin, attribute)

    def evaluate(self, spec: GuestSpec, rows: Int64s) -> object:
        """Ask the plugin; PluginError if it fails, hangs, or returns something else than integers."""
        plugin = self._plugin

        def ask() -> object:
            found = np.asarray(plugin.evaluate(spec, rows))  # type: ignore[attr-defined]
            if found.shape != rows.shape or found.dtype.kind not in "iu":
                raise TypeError(f"it returned {found.dtype} of shape {found.shape}, not one integer per host")
            return found

        return self._call(self._own_name, ask)


class _PluginThread:
    """A daemon thread that does one work at a time, replaced when a work takes too long."""

    def __init__(self, deadline_s: float) -> None:
        self._deadline_s = deadline_s
        self._turn = threading.Lock()
        self._works: SimpleQueue[tuple[Callable[[], object], SimpleQueue[object]]] | None = None
        self._worker: threading.Thread | None = None

    def call(self, name: str, work: Callable[[], T]) -> T:
        """Return the result of a work; PluginError if it raises, or takes longer than the deadline."""
        with self._turn:
            if self._works is None:
                self._works = SimpleQueue()
                self._worker = threading.Thread(target=_work_for_ever, args=(self._works,), daemon=True)
                self._worker.start()
            answer: SimpleQueue[object] = SimpleQueue()
            self._works.put((work, answer))
            try:
                found = answer.get(timeout=self._deadline_s)
            except Empty:
                self._give_up()
                raise PluginError(f"plugin {name!r} took longer than {self._deadline_s:g} s") from None
        if isinstance(found, _Raised):
            raise failure_of(name, found.error) from found.error
        return cast(T, found)

    def _give_up(self) -> None:
        """Leave the thread to itself. A loop in Python ends by the exception; a wait in C code goes on."""
        worker, self._works, self._worker = self._worker, None, None
        if worker is not None and worker.ident is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(worker.ident), ctypes.py_object(SystemExit))


class _Raised:
    """What a work raised."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def _work_for_ever(works: SimpleQueue[tuple[Callable[[], object], SimpleQueue[object]]]) -> None:
    while True:
        work, answer = works.get()
        try:
            answer.put(work())
        except BaseException as error:  # whatever a plugin raises ends its own call only
            answer.put(_Raised(error))


def _uses(policy: Policy) -> frozenset[str]:
    return frozenset([*(use.name for use in policy.filters), *(use.name for use in policy.scorers)])


def with_out_of_service(policies: Iterable[Policy], failure: PluginError) -> tuple[Policy, ...]:
    """Return the policies, with those that name the failed plugin out of service."""
    why = failure.message[:_MOST_WHY]
    stop = PluginUse("out_of_service", msgspec.json.encode({"why": why}).decode())
    return tuple(
        Policy(name=one.name, summary=one.summary, filters=(stop,), overcommit=one.overcommit, reserve=one.reserve)
        if failure.plugin in _uses(one)
        else one
        for one in policies
    )


def check_own_policies(settings: ControlSettings) -> None:
    """Load the plugins and build all policies once, so that mistakes end the start; HostlerError."""
    Engine(policies_for(settings), registry=OwnPluginSet(settings).registry)
