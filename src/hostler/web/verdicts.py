"""Every host's verdict on one VM, so that a person can read it for a thousand hosts. Pure.

Hosts that refuse for the same reasons are one group; groups come in the order of their nearest host, as the engine
ordered them, and each shows what that one lacks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from hostler.model import Change, Explanation, HostVerdict
from hostler.web.wording import failure_text, reason_text

__all__ = ["Fitting", "Group", "Verdicts", "changes_text", "explanation_of", "verdicts_of"]

_MOST_FITTING = 10
_MOST_NEAR = 10


class Fitting(msgspec.Struct, frozen=True):
    """A host that would take the VM, with the points that it gets."""

    host: str
    total: str
    scores: tuple[str, ...]


class Near(msgspec.Struct, frozen=True):
    """A host that nearly would, and all that it lacks."""

    host: str
    lacks: tuple[str, ...]


class Group(msgspec.Struct, frozen=True):
    """Hosts that refuse for the same reasons."""

    reasons: tuple[str, ...]
    hosts: tuple[str, ...]
    nearest: Near


class Verdicts(msgspec.Struct, frozen=True):
    """What all hosts say."""

    count: int
    scorers: tuple[str, ...]
    fitting: tuple[Fitting, ...]
    more_fitting: tuple[str, ...]
    groups: tuple[Group, ...]
    near: tuple[Near, ...]
    chosen: str = ""
    is_best: bool = True  # the chosen one, by the points of now

    @property
    def fitting_count(self) -> int:
        """Return how many hosts would take it."""
        return len(self.fitting) + len(self.more_fitting)


def explanation_of(told: Mapping[str, object]) -> Explanation:
    """Return the explanation of which REST tells the object; there, what is not said is null."""
    decision = msgspec.convert(told["decision"], dict[str, object])
    said = {name: value for name, value in decision.items() if value is not None}
    return msgspec.convert({**told, "decision": said}, Explanation)


def verdicts_of(found: Explanation | Sequence[HostVerdict], chosen: str = "") -> Verdicts:
    """Return what a page shows of verdicts, which are ordered: best first, then nearest first.

    The chosen host is always among those that are shown with their points.
    """
    verdicts = found.verdicts if isinstance(found, Explanation) else tuple(found)
    fitting = [verdict for verdict in verdicts if verdict.fits]
    refusing = [verdict for verdict in verdicts if not verdict.fits]
    shown = fitting[:_MOST_FITTING] + [verdict for verdict in fitting[_MOST_FITTING:] if verdict.host == chosen]
    scorers = tuple(dict.fromkeys(score.plugin for verdict in fitting for score in verdict.scores))
    groups: dict[tuple[str, ...], list[HostVerdict]] = {}
    for verdict in refusing:
        groups.setdefault(tuple(reason_text(failure.reason) for failure in verdict.failures), []).append(verdict)
    return Verdicts(
        count=len(verdicts),
        scorers=scorers,
        fitting=tuple(_fitting(verdict, scorers) for verdict in shown),
        more_fitting=tuple(verdict.host for verdict in fitting[_MOST_FITTING:] if verdict.host != chosen),
        groups=tuple(
            Group(reasons, tuple(one.host for one in some), _near(some[0])) for reasons, some in groups.items()
        ),
        near=tuple(_near(verdict) for verdict in refusing[:_MOST_NEAR]),
        chosen=chosen,
        is_best=not chosen or bool(fitting and fitting[0].host == chosen),
    )


def changes_text(changes: Sequence[Change]) -> str:
    """Say what a cure asks for."""
    return ", and ".join(change.text for change in changes)


def _fitting(verdict: HostVerdict, scorers: Sequence[str]) -> Fitting:
    by_plugin = {score.plugin: score.weighted for score in verdict.scores}
    return Fitting(verdict.host, _number(verdict.total), tuple(_number(by_plugin.get(name)) for name in scorers))


def _near(verdict: HostVerdict) -> Near:
    return Near(verdict.host, tuple(failure_text(failure) for failure in verdict.failures))


def _number(value: int | float | None) -> str:
    if value is None:
        return "\N{EN DASH}"
    value = value or 0  # nobody wants to read -0
    return f"{value:,.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else f"{value:,}"
