"""Decisions and their explanations: the same objects in CLI, REST, event and page."""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = [
    "Change",
    "ChangeKind",
    "Cure",
    "Decision",
    "EvictionAdvice",
    "Explanation",
    "Failure",
    "GangAdvice",
    "HostVerdict",
    "MemberAdvice",
    "Reason",
    "ReasonCount",
    "Score",
]

ChangeKind = Literal["reduce_request", "tolerate", "relax_selector", "uncordon", "evict", "other"]


class Reason(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a host was refused: the filter, a stable code, and what it is about (a resource, a taint, a label)."""

    plugin: str
    code: str
    subject: str = ""

    def text(self) -> str:
        """Write the reason in a few words."""
        words = self.code.replace("_", " ")
        return f"{words}: {self.subject}" if self.subject else words


class ReasonCount(msgspec.Struct, frozen=True):
    """How many hosts were refused for one primary reason."""

    reason: Reason
    hosts: int


class Decision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a guest goes, or why nowhere. ``reasons`` and ``feasible`` add up to ``hosts``."""

    guest: str
    uid: str
    seq: int
    at: int
    policy: str
    state: str
    attempt: int = 1
    host: str = ""
    devices: tuple[int, ...] = ()
    total: int | float | None = None
    hosts: int = 0
    feasible: int = 0
    reasons: tuple[ReasonCount, ...] = ()
    note: str = ""  # what happened outside: a failed bind, a late answer


class Failure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One filter that a host fails, with the amounts where there are any (in the resource's unit).

    ``by`` names the first few guests that stand in the way, where guests do; for amounts, those for whom ``held`` is
    kept (``reservation:night``, ``gang:default/crew``, ``guest:web-0``).
    """

    reason: Reason
    needed: int | None = None
    free: int | None = None
    missing: int | None = None
    held: int = 0
    by: tuple[str, ...] = ()


class Score(msgspec.Struct, frozen=True):
    """One scorer's part: the raw score, and what it counts after normalising and weighting."""

    plugin: str
    raw: int | float
    weighted: int | float


class HostVerdict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one host says to one guest: all failing filters, or all scores."""

    host: str
    failures: tuple[Failure, ...] = ()
    scores: tuple[Score, ...] = ()
    total: int | float | None = None

    @property
    def fits(self) -> bool:
        """Say whether the guest may go there."""
        return not self.failures


class Change(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change that would help; ``relative`` is its size (a request cut by half: 0.5; a constraint given up: 1)."""

    kind: ChangeKind
    subject: str
    text: str
    relative: float
    amount: int | None = None


class Cure(msgspec.Struct, frozen=True, kw_only=True):
    """The smallest set of changes, at most three, after which the guest fits on ``host``."""

    host: str
    changes: tuple[Change, ...]


class EvictionAdvice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The cheapest eviction that would make room, or (without a host) why none would.

    ``hosts`` counts the hosts where some eviction would help. ``why_not`` also tells why it is not carried out.
    Where room is made for a whole ``gang``, ``host`` names all hosts of the victims. ``tenant`` is set where it is
    reclaimed: that one has more than it is guaranteed, and the guest's tenant less.
    """

    host: str = ""
    victims: tuple[str, ...] = ()
    highest_priority: int = 0
    broken_budgets: int = 0
    hosts: int = 0
    why_not: str = ""
    gang: str = ""
    tenant: str = ""


class MemberAdvice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a pending member of a gang finds: the host it would take, or the reasons why none."""

    guest: str
    host: str = ""
    reasons: tuple[ReasonCount, ...] = ()


class GangAdvice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A gang as it stands: how many are placed, what each pending member finds, and what binds."""

    gang: str
    min_count: int = 0
    placed: int = 0
    would_place: int = 0
    topology: str = ""
    domain: str = ""
    members: tuple[MemberAdvice, ...] = ()
    binding: str = ""


class Explanation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A decision with every host's verdict, near misses first among the refusals, the cure, and what would wake it."""

    decision: Decision
    as_of: str
    verdicts: tuple[HostVerdict, ...] = ()
    near_misses: tuple[str, ...] = ()
    cure: Cure | None = None
    eviction: EvictionAdvice | None = None
    gang: GangAdvice | None = None
    quota: str = ""  # what the guest would take beyond its tenant's quota
    wakes: tuple[str, ...] = ()

    @property
    def feasible(self) -> tuple[str, ...]:
        """Name the hosts that would take the guest."""
        return tuple(v.host for v in self.verdicts if v.fits)
