"""Third parties' plugins behind the engine's own contracts: answers are checked before they count."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hostler.engine.framework import Filter, Scorer
from hostler.engine.kernels_layout import Int16s, Int64s
from hostler.engine.view import ClusterView
from hostler.errors import PluginError
from hostler.model import GuestSpec, Reason

__all__ = ["ForeignFilter", "ForeignScorer", "failure_of"]

_MAX_REASONS = 1000
_MAX_SCORE = 2**36  # leaves room for weights of a million and a hundred scorers in 64 bits


def failure_of(name: str, error: BaseException) -> PluginError:
    """Return what a plugin raised as an error of ours; its text may hold anything, and must fit journals and wires."""
    text = f"plugin {name!r} failed: {type(error).__name__}: {error}"
    return PluginError(text.encode(errors="backslashreplace").decode())


class ForeignFilter:
    """A third party's filter; its verdicts become reason codes."""

    is_static = False

    def __init__(self, plugin: Filter, view: ClusterView) -> None:
        self._plugin = plugin
        self.name = plugin.name
        self.cures = plugin.cures
        if not isinstance(plugin.reasons, list | tuple) or not all(isinstance(r, str) for r in plugin.reasons):
            raise PluginError(f"filter {plugin.name!r} has no list of reasons", hint="reasons is a sequence of strings")
        if any(not _is_text(reason) for reason in plugin.reasons):
            raise PluginError(f"filter {plugin.name!r} has a reason that is no text", hint="reasons must be Unicode")
        if len(plugin.reasons) > _MAX_REASONS:
            raise PluginError(f"filter {plugin.name!r} has more than {_MAX_REASONS} reasons")
        codes = [view.reasons.number(Reason(plugin.name, reason)) for reason in plugin.reasons]
        self._codes = np.array([0, *codes], dtype=np.int16)

    def evaluate(self, spec: GuestSpec, rows: Int64s) -> Int16s | None:
        """Return reason codes."""
        verdicts = _checked(self.name, self._plugin.evaluate, spec, rows)
        if len(verdicts) and (verdicts.min() < 0 or verdicts.max() >= len(self._codes)):
            raise PluginError(f"filter {self.name!r} returned a verdict outside 0..{len(self._codes) - 1}")
        return self._codes[verdicts]


class ForeignScorer:
    """A third party's scorer."""

    is_static = False

    def __init__(self, plugin: Scorer) -> None:
        self._plugin = plugin
        self.name = plugin.name
        self.normalizer = plugin.normalizer

    def applies(self, spec: GuestSpec) -> bool:
        """Say yes: the engine cannot know."""
        return True

    def evaluate(self, spec: GuestSpec, rows: Int64s) -> Int64s:
        """Return raw scores."""
        scores = _checked(self.name, self._plugin.evaluate, spec, rows)
        if len(scores) and (scores.min() < -_MAX_SCORE or scores.max() > _MAX_SCORE):
            raise PluginError(f"scorer {self.name!r} returned a score beyond 2^36", hint="scale the scores down")
        return scores


def _is_text(reason: str) -> bool:
    try:
        reason.encode()
    except UnicodeEncodeError:
        return False
    return True


def _checked(name: str, evaluate: Callable[[GuestSpec, Int64s], object], spec: GuestSpec, rows: Int64s) -> Int64s:
    """Call a plugin and check what it returns."""
    try:
        array = np.asarray(evaluate(spec, rows.copy()))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # what ends a task or a generator of theirs must not end one of ours
        raise failure_of(name, error) from error
    if array.shape != rows.shape or array.dtype.kind not in "iu":
        raise PluginError(
            f"plugin {name!r} returned {array.dtype} of shape {array.shape} for {len(rows)} hosts",
            hint="evaluate must return one integer per row",
        )
    return array.astype(np.int64)
