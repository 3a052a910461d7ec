"""The settings of a scheduler as plain data: profiles, policies, election, limits, extenders.

``kube.configuration`` makes them from a ``Scheduler`` file or a KubeSchedulerConfiguration; ``kube.scheduler`` reads
them.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from hostler.model import Policy, QueueRules

__all__ = ["DEFAULT_SCHEDULER_NAME", "ApiLimits", "Election", "ExtenderSettings", "GangRules", "SchedulerProfile"]
__all__ += ["SchedulerSettings"]

DEFAULT_SCHEDULER_NAME = "hostler-scheduler"


class SchedulerProfile(msgspec.Struct, frozen=True):
    """A scheduler name and the policy that places its pods."""

    scheduler_name: str
    policy: str


class Election(msgspec.Struct, frozen=True, kw_only=True):
    """Leader election by a Lease. The default times are kube-scheduler's."""

    is_on: bool = True
    namespace: str = "kube-system"
    name: str = DEFAULT_SCHEDULER_NAME
    lease_s: float = 15.0
    renew_s: float = 10.0  # a leader that could not renew for this long stops writing
    retry_s: float = 2.0


class ApiLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How many calls may be sent to the API server at once, and how long to wait for it."""

    max_in_flight: int = 64  # limit of binds in flight; the window adapts below it
    bind_timeout_s: float = 4.0  # shorter than the lease minus the renewal deadline
    call_timeout_s: float = 30.0


class GangRules(msgspec.Struct, frozen=True, kw_only=True):
    """Rules that a PodGroup does not contain.

    They are for a gang that lost members, for one that finds no room, and for one without a priority of its own, which
    takes that of its lowest or of its highest member.
    """

    when_broken: Literal["keep", "prefer_repair", "release_after"] = "keep"
    release_after_s: float = 60.0
    head_of_line: Literal["skip", "reserve"] = "skip"
    priority: Literal["lowest", "highest"] = "lowest"


class ExtenderSettings(msgspec.Struct, frozen=True, kw_only=True):
    """An HTTP extender that filters and scores nodes (kubescheduler.config.k8s.io/v1 ``extenders``)."""

    url_prefix: str
    filter_verb: str = ""
    prioritize_verb: str = ""
    preempt_verb: str = ""
    bind_verb: str = ""
    weight: int = 1
    timeout_s: float = 5.0
    is_node_cache_capable: bool = False
    managed_resources: tuple[str, ...] = ()
    ignored_resources: tuple[str, ...] = ()  # of these, resources that only the extender counts
    is_ignorable: bool = False
    ca_file: str = ""
    ca_data: str = ""  # PEM; takes precedence over the file, as in client-go
    cert_file: str = ""
    cert_data: str = ""
    key_file: str = ""
    key_data: str = ""
    server_name: str = ""  # the name in its certificate, if it differs from the address
    is_insecure: bool = False


class SchedulerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings. The first policy is the default."""

    profiles: tuple[SchedulerProfile, ...]
    policies: tuple[Policy, ...]
    queue: QueueRules = QueueRules()
    election: Election = Election()
    limits: ApiLimits = ApiLimits()
    extenders: tuple[ExtenderSettings, ...] = ()
    gangs: GangRules = GangRules()
    seed_annotations: bool = False  # the first scheduler's annotations `priority` and `pod-group` are used
    seed: int = 0
    scheduler_metrics: bool = False  # metrics are served under kube-scheduler's names too
    listen: str = "127.0.0.1:10359"  # probes, metrics, explanations; empty: none
    kubeconfig: str = ""  # from a KubeSchedulerConfiguration; a flag takes precedence
    notes: tuple[str, ...] = ()  # unsupported settings of a configuration

    @property
    def longest_bind_s(self) -> float:
        """Return the longest time a bind may take, by us or by an extender."""
        return max(self.limits.bind_timeout_s, *(one.timeout_s for one in self.extenders if one.bind_verb), 0.0)
