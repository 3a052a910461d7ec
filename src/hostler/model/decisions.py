"""Decisions and their explanations: the same objects in the CLI, REST, events and pages."""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = [
    "ChangeKind",
    "Cure",
    "CureChange",
    "Decision",
    "DecisionNote",
    "EvictionAdvice",
    "EvictionObstacle",
    "Explanation",
    "Failure",
    "GangAdvice",
    "HostVerdict",
    "MemberAdvice",
    "Reason",
    "ReasonCount",
    "Score",
    "WakeEvent",
]  # fmt: skip

ChangeKind = Literal["reduce_request", "tolerate", "relax_selector", "uncordon", "evict", "other"]


class Reason(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a host was rejected: the filter, a stable code, and a subject (a resource, a taint, a label)."""

    plugin: str
    code: str
    subject: str = ""

    def text(self) -> str:
        """Write the reason in a few words."""
        words = self.code.replace("_", " ")
        return f"{words}: {self.subject}" if self.subject else words


class ReasonCount(msgspec.Struct, frozen=True):
    """How many hosts were rejected for one primary reason."""

    reason: Reason
    hosts: int


class DecisionNote(msgspec.Struct, frozen=True, omit_defaults=True):
    """A note beside the reasons of a decision: a stable code, and its subject.

    ``subject`` is a host, a gang or a reservation, and ``count`` of ``total`` is the counted quantity. ``place`` is the
    domain of a gang (``rack=r1``). ``said`` is a text from outside: of an agent, an extender, an API server.
    """

    code: str
    subject: str = ""
    count: int = 0
    total: int = 0
    place: str = ""
    said: str = ""


class Decision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The host of a guest, or why it has none. ``reasons`` and ``feasible`` add up to ``hosts``."""

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
    note: str = ""  # the text of ``notes``
    notes: tuple[DecisionNote, ...] = ()  # beside the reasons: what a gang lacks, an eviction, a failed bind


class Failure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One filter that rejects a host, with amounts if it has any (in the resource's unit).

    ``by`` names the first few guests that block the host. For amounts, it names the owners of the ``held`` room
    (``reservation:night``, ``gang:default/crew``, ``guest:web-0``).
    """

    reason: Reason
    needed: int | None = None
    free: int | None = None
    missing: int | None = None
    held: int = 0
    by: tuple[str, ...] = ()


class Score(msgspec.Struct, frozen=True):
    """One scorer's part: the raw score, and its contribution after normalizing and weighting."""

    plugin: str
    raw: int | float
    weighted: int | float


class HostVerdict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer of one host for one guest: all failing filters, or all scores.

    ``preference`` is set where soft constraints come before the policy's own score: it is the sum of their scores,
    which are not part of ``total``.
    """

    host: str
    failures: tuple[Failure, ...] = ()
    scores: tuple[Score, ...] = ()
    total: int | float | None = None
    preference: int | None = None

    @property
    def fits(self) -> bool:
        """Say whether the host takes the guest."""
        return not self.failures


class CureChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change of a cure; ``relative`` is its size (a request cut by half: 0.5; a dropped constraint: 1)."""

    kind: ChangeKind
    subject: str
    text: str
    relative: float
    amount: int | None = None


class Cure(msgspec.Struct, frozen=True, kw_only=True):
    """The smallest set of changes, at most three, after which the guest fits on ``host``."""

    host: str
    changes: tuple[CureChange, ...]


class EvictionObstacle(msgspec.Struct, frozen=True, omit_defaults=True):
    """What prevents evictions from helping: a stable code, and on how many hosts; 0 if it is about no host."""

    code: str
    hosts: int = 0


class WakeEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """An event that would wake a guest: a stable code, and its subject (a reservation)."""

    code: str
    subject: str = ""


class EvictionAdvice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The cheapest eviction that would make room, or (without a host) why none would.

    ``hosts`` counts the hosts where some eviction would help. ``obstacles`` are what prevents evictions from helping,
    or why this one is not carried out; ``why_not`` is the same as text. For a whole ``gang``, ``host`` names all hosts
    of the victims. ``tenant`` is set for a reclaim: this tenant has more than its guarantee, and the guest's tenant
    less.
    """

    host: str = ""
    victims: tuple[str, ...] = ()
    highest_priority: int = 0
    broken_budgets: int = 0
    hosts: int = 0
    why_not: str = ""
    gang: str = ""
    tenant: str = ""
    obstacles: tuple[EvictionObstacle, ...] = ()


class MemberAdvice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The host that a pending member of a gang would take, or the reasons why there is none."""

    guest: str
    host: str = ""
    reasons: tuple[ReasonCount, ...] = ()


class GangAdvice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The current state of a gang: placed members, what each pending member finds, and the binding constraint.

    The binding constraint is ``not_ready`` if the gang cannot be tried yet, else the reason that rejects most.
    ``binding`` is its text.
    """

    gang: str
    min_count: int = 0
    placed: int = 0
    would_place: int = 0
    topology: str = ""
    domain: str = ""
    members: tuple[MemberAdvice, ...] = ()
    binding: str = ""
    not_ready: DecisionNote | None = None
    binding_reason: Reason | None = None


class Explanation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A decision with every host's verdict, near misses first among rejecting hosts, the cure, and the wake events."""

    decision: Decision
    as_of: str
    verdicts: tuple[HostVerdict, ...] = ()
    near_misses: tuple[str, ...] = ()
    cure: Cure | None = None
    eviction: EvictionAdvice | None = None
    gang: GangAdvice | None = None
    quota: str = ""  # what the guest would take beyond its tenant's quota
    wakes: tuple[str, ...] = ()  # the text of each of ``wake_events``
    wake_events: tuple[WakeEvent, ...] = ()
    ignored: tuple[str, ...] = ()  # soft constraints of the guest that its policy does not count

    @property
    def feasible(self) -> tuple[str, ...]:
        """Name the hosts that would take the guest."""
        return tuple(v.host for v in self.verdicts if v.fits)
