"""What a scheduler is told to do, as plain data: profiles, policies, election, limits, extenders.

Made by ``kube.configuration`` from our file or from a KubeSchedulerConfiguration; read by ``kube.scheduler``.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from hostler.model import Policy, QueueRules

__all__ = ["DEFAULT_SCHEDULER_NAME", "Election", "ExtenderSettings", "GangRules", "Limits", "Profile"]
__all__ += ["SchedulerSettings"]

DEFAULT_SCHEDULER_NAME = "hostler-scheduler"


class Profile(msgspec.Struct, frozen=True):
    """Pods that name this scheduler are placed by this policy."""

    scheduler_name: str
    policy: str


class Election(msgspec.Struct, frozen=True, kw_only=True):
    """Who may write: the holder of a Lease. Times are kube-scheduler's."""

    is_on: bool = True
    namespace: str = "kube-system"
    name: str = DEFAULT_SCHEDULER_NAME
    lease_s: float = 15.0
    renew_s: float = 10.0  # a holder that could not renew for so long stops writing
    retry_s: float = 2.0


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How hard the API server may be pressed, and how long is waited for it."""

    max_in_flight: int = 64  # binds at once, at most; the pool finds its own level below
    bind_timeout_s: float = 4.0  # shorter than a lease's length less its renewal deadline
    call_timeout_s: float = 30.0


class GangRules(msgspec.Struct, frozen=True, kw_only=True):
    """What a PodGroup does not say itself: what becomes of a gang that lost members, and of one that finds no room."""

    when_broken: Literal["keep", "prefer_repair", "release_after"] = "keep"
    release_after_s: float = 60.0
    head_of_line: Literal["skip", "reserve"] = "skip"


class ExtenderSettings(msgspec.Struct, frozen=True, kw_only=True):
    """An HTTP extender that is asked about feasible nodes (kubescheduler.config.k8s.io/v1 ``extenders``)."""

    url_prefix: str
    filter_verb: str = ""
    prioritize_verb: str = ""
    preempt_verb: str = ""
    bind_verb: str = ""
    weight: int = 1
    timeout_s: float = 5.0
    is_node_cache_capable: bool = False
    managed_resources: tuple[str, ...] = ()
    ignored_resources: tuple[str, ...] = ()  # of these, those that only the extender counts
    is_ignorable: bool = False
    ca_file: str = ""
    ca_data: str = ""  # PEM; beats the file, as in client-go
    cert_file: str = ""
    cert_data: str = ""
    key_file: str = ""
    key_data: str = ""
    server_name: str = ""  # the name that its certificate has, where that is not the one in the address
    is_insecure: bool = False


class SchedulerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """All of it. The first policy is the default."""

    profiles: tuple[Profile, ...]
    policies: tuple[Policy, ...]
    queue: QueueRules = QueueRules()
    election: Election = Election()
    limits: Limits = Limits()
    extenders: tuple[ExtenderSettings, ...] = ()
    gangs: GangRules = GangRules()
    seed_annotations: bool = False  # the first scheduler's annotations `priority` and `pod-group` count
    seed: int = 0
    listen: str = "127.0.0.1:10359"  # probes, metrics, explanations; empty: none
    kubeconfig: str = ""  # a KubeSchedulerConfiguration may name one; a flag beats it
    notes: tuple[str, ...] = ()  # what a configuration asks for that is not done

    @property
    def longest_bind_s(self) -> float:
        """Return how long a bind may take, whoever carries it out."""
        return max(self.limits.bind_timeout_s, *(one.timeout_s for one in self.extenders if one.bind_verb), 0.0)
