"""Adapters from third parties' plugins to the engine's contracts; answers are checked before they are used."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hostler.engine.framework import Filter, Scorer
from hostler.engine.kernels.layout import Int16s, Int64s
from hostler.engine.view import ClusterView
from hostler.errors import PluginError
from hostler.model import GuestSpec, Reason
from hostler.model.reasons import ReasonKind, Wake, join_cures

__all__ = ["ForeignFilter", "ForeignScorer", "failure_of"]

_MAX_REASONS = 1000
_MAX_SCORE = 2**36  # leaves room for weights of a million and a hundred scorers in 64 bits


def failure_of(name: str, error: BaseException) -> PluginError:
    """Return what a plugin raised as an error of ours; its text may hold anything, and must fit journals and wires."""
    text = f"plugin {name!r} failed: {type(error).__name__}: {error}"
    failure = PluginError(text.encode(errors="backslashreplace").decode())
    failure.place = _place_of(error)
    failure.plugin = name
    return failure


def _place_of(error: BaseException) -> str:
    """Return file and line where a plugin failed: the innermost frame in the file that the engine called."""
    frames = error.__traceback__.tb_next if error.__traceback__ is not None else None  # the first one is the engine's
    if frames is None:
        return ""
    file, line = frames.tb_frame.f_code.co_filename, frames.tb_lineno
    while (frames := frames.tb_next) is not None:
        if frames.tb_frame.f_code.co_filename == file:
            line = frames.tb_lineno
    return f"{file}:{line}"


def _misbehaved(plugin: Filter | Scorer, problem: str, *, hint: str = "") -> PluginError:
    """Return the error for a plugin that breaks its contract, with the place of its ``evaluate``."""
    error = PluginError(problem, hint=hint)
    error.plugin = plugin.name
    code = getattr(getattr(plugin.evaluate, "__func__", plugin.evaluate), "__code__", None)
    if code is not None:
        error.place = f"{code.co_filename}:{code.co_firstlineno}"
    return error


class ForeignFilter:
    """A third party's filter; its verdicts become reason codes."""

    is_static = False

    def __init__(self, plugin: Filter, view: ClusterView) -> None:
        self._plugin = plugin
        self.name = plugin.name
        reasons = _check_reasons(plugin)
        self.cures = join_cures(reasons)
        codes = [view.reasons.number(Reason(plugin.name, kind.code)) for kind in reasons]
        self._codes = np.array([0, *codes], dtype=np.int16)

    def evaluate(self, spec: GuestSpec, rows: Int64s) -> Int16s | None:
        """Return reason codes."""
        verdicts = _call_plugin(self._plugin, spec, rows)
        if len(verdicts) and (verdicts.min() < 0 or verdicts.max() >= len(self._codes)):
            problem = f"filter {self.name!r} returned a verdict outside 0..{len(self._codes) - 1}"
            raise _misbehaved(self._plugin, problem)
        return self._codes[verdicts]


class ForeignScorer:
    """A third party's scorer."""

    is_static = False

    def __init__(self, plugin: Scorer) -> None:
        self._plugin = plugin
        self.name = plugin.name
        self.normalizer = plugin.normalizer

    def applies(self, spec: GuestSpec) -> bool:
        """Return True: the engine cannot know."""
        return True

    def evaluate(self, spec: GuestSpec, rows: Int64s) -> Int64s:
        """Return raw scores."""
        scores = _call_plugin(self._plugin, spec, rows)
        if len(scores) and (scores.min() < -_MAX_SCORE or scores.max() > _MAX_SCORE):
            problem = f"scorer {self.name!r} returned a score beyond 2^36"
            raise _misbehaved(self._plugin, problem, hint="scale the scores down")
        return scores


def _check_reasons(plugin: Filter) -> Sequence[ReasonKind]:
    """Return the reasons that a filter declares, or raise an error that says what is wrong with them."""
    name = plugin.name
    reasons: object = plugin.reasons  # whatever it is
    if not isinstance(reasons, list | tuple) or not all(isinstance(kind, ReasonKind) for kind in reasons):
        raise _misbehaved(
            plugin, f"filter {name!r} has no list of reasons", hint="reasons is a sequence of hostler.ReasonKind"
        )
    if len(reasons) > _MAX_REASONS:
        raise _misbehaved(plugin, f"filter {name!r} has more than {_MAX_REASONS} reasons")
    for kind in reasons:
        if not isinstance(kind.code, str) or not _is_encodable(kind.code):
            raise _misbehaved(plugin, f"filter {name!r} has a reason that is no text", hint="codes must be Unicode")
        if kind.plugin not in ("", name):
            raise _misbehaved(
                plugin,
                f"filter {name!r} declares the reason {kind.code!r} for {kind.plugin!r}",
                hint="leave plugin out",
            )
        if kind.is_resolvable:
            raise _misbehaved(
                plugin,
                f"filter {name!r} declares the reason {kind.code!r} as one that an eviction resolves",
                hint="declare it with is_resolvable=False: trial evictions are judged by built-in filters only",
            )
        if not isinstance(kind.cures, frozenset) or not all(isinstance(wake, Wake) for wake in kind.cures):
            raise _misbehaved(
                plugin,
                f"filter {name!r} has a reason {kind.code!r} without cures",
                hint="cures is a frozenset of hostler.Wake",
            )
    return reasons


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _call_plugin(plugin: Filter | Scorer, spec: GuestSpec, rows: Int64s) -> Int64s:
    """Call a plugin and check what it returns."""
    name = plugin.name
    try:
        array = np.asarray(plugin.evaluate(spec, rows.copy()))
    except (KeyboardInterrupt, PluginError):  # the second by a front that watches over its plugins
        raise
    except BaseException as error:  # what ends a task or a generator of theirs must not end one of ours
        raise failure_of(name, error) from error
    if array.shape != rows.shape or array.dtype.kind not in "iu":
        raise _misbehaved(
            plugin,
            f"plugin {name!r} returned {array.dtype} of shape {array.shape} for {len(rows)} hosts",
            hint="evaluate must return one integer per row",
        )
    return array.astype(np.int64)
