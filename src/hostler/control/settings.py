"""Settings of a control plane, from the command line, the environment and defaults."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from hostler.engine import BUILT_IN
from hostler.engine.policy.registry import suggest
from hostler.errors import InputError
from hostler.model import Amounts, Policy, PreemptionRules
from hostler.queries import with_mixes

__all__ = ["ControlSettings", "InvalidStrategyError", "check_strategy", "declared_policies", "default_strategy"]
__all__ += ["policies_for", "policies_of_empty_log"]

_LONGEST = 63  # what is looked at of a name that may be anything
DEFAULT_STRATEGY = "least_loaded"
STRATEGY_VARIABLE = "SCHEDULING_STRATEGY"


class InvalidStrategyError(InputError):
    """An unknown strategy."""

    code = "invalid_strategy"


MOST_VMS_EACH = 10_000


class ControlSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one process. Times in seconds."""

    strategy: str = DEFAULT_STRATEGY
    listen: str = "127.0.0.1:8470"
    names: tuple[str, ...] = ()  # by which clients may call us, beside loopback's
    heartbeat_s: float = 5.0
    silent_after_s: float = 15.0
    stop_after_s: float = 12.0  # lease age at which watchdogs stop VMs; below what makes a host silent
    lease_ttl_s: float = 3.0
    renew_s: float = 1.0
    checkpoint_every: int = 5000  # log entries
    decide_at_once: int = 256  # VMs in one step
    keep_events_s: float = 7 * 86400.0
    keep_operations_s: float = 7 * 86400.0
    keep_idempotency_s: float = 86400.0
    read_s: float = 30.0  # a body that takes longer is not waited for
    verdict_s: float = 10.0  # how long a VM that must be placed at once is waited for
    head_s: float = 30.0  # a connection that sends no whole head of a request for longer is closed
    vms_each: int = MOST_VMS_EACH  # VMs that one project may have, also those that wait: a quota bounds no wishes
    streams_each: int = 32  # streams that one key, or the sessions opened with it, may have open
    streams: int = 1000  # streams that all have open
    alive_s: float = 10.0  # between signs of life in streams
    stream_look_s: float = 5.0  # after which it is seen again whether the key of a stream is still good
    fence_command: tuple[str, ...] = ()
    move_victims: bool = True  # VMs that make room for others are moved while they run, if they can
    overcommit: Amounts = ()  # of hosts that say nothing themselves, in millionths
    reserve: Amounts = ()
    own_policies: tuple[Policy, ...] = ()  # strategies beside the built-in ones
    plugin_files: tuple[str, ...] = ()  # Python files with plugins that they name
    plugin_deadline_s: float = 5.0  # an answer of a plugin that takes longer takes its strategies out of service

    @property
    def without_own(self) -> ControlSettings:
        """Return the settings without strategies and plugins of one's own, for what must not call these."""
        strategy = self.strategy if self.strategy in BUILT_IN else DEFAULT_STRATEGY
        return msgspec.structs.replace(self, own_policies=(), plugin_files=(), strategy=strategy)

    @property
    def strategies(self) -> Mapping[str, Policy]:
        """Return all strategies by name."""
        return {**BUILT_IN, **{one.name: one for one in self.own_policies}}


def check_strategy(name: str, known: Collection[str] = BUILT_IN) -> str:
    """Return a strategy that exists; InvalidStrategyError."""
    if name not in known:
        start = name[:_LONGEST]
        raise InvalidStrategyError(f"there is no strategy {start!r}", hint=suggest(start, known))
    return name


def default_strategy(environment: Mapping[str, str], known: Mapping[str, Policy] = BUILT_IN) -> str:
    """Return the strategy for VMs that name none: the environment's, or least_loaded."""
    return check_strategy(environment.get(STRATEGY_VARIABLE, "") or DEFAULT_STRATEGY, known)


def declared_policies(settings: ControlSettings) -> tuple[Policy, ...]:
    """Return all strategies, the default first; each lets VMs of higher priority take the room of lower ones.

    VMs that can run elsewhere make room first, and move if the settings say so.
    """
    known = settings.strategies
    first = check_strategy(settings.strategy, known)
    names = [first, *(name for name in sorted(known) if name != first)]
    return tuple(
        msgspec.structs.replace(
            known[name],
            preemption=msgspec.structs.replace(
                known[name].preemption or PreemptionRules(), movable_first=True, moves=settings.move_victims
            ),
            overcommit=known[name].overcommit or settings.overcommit,
            reserve=known[name].reserve or settings.reserve,
        )
        for name in names
    )


def policies_for(settings: ControlSettings) -> tuple[Policy, ...]:
    """Return all strategies as an engine takes them before it knows any VM; the mixes are renewed later."""
    return with_mixes(declared_policies(settings))


def policies_of_empty_log() -> tuple[Policy, ...]:
    """Return the policies of an engine before the first entry of a log: those of the first release.

    Every replica begins with them, also with a log that an older release wrote and that does not name them. The first
    leader writes what differs by now to the log. A policy must not change here, or old logs diverge.
    """
    return tuple(
        msgspec.structs.replace(
            policy, preemption=BUILT_IN[policy.name].preemption or PreemptionRules(), soft_constraints="scored"
        )
        for policy in policies_for(ControlSettings())
    )
