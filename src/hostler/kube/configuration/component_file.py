"""The structs that describe a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1), key by key.

Field names and defaults are those of kubernetes/kubernetes staging/src/k8s.io/kube-scheduler/config/v1. Unknown keys
are rejected, as kube-scheduler does. Arguments of plugins are in ``component_args``.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

__all__ = [
    "ClientConnection",
    "ComponentFile",
    "ComponentProfile",
    "EnabledPlugin",
    "Extender",
    "LeaderElection",
    "PluginArgs",
    "PluginSet",
    "Plugins",
]  # fmt: skip

Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Seconds = Annotated[int, Meta(ge=1, le=10**9)]
Percent = Annotated[int, Meta(ge=0, le=100)]


class ComponentPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Base of all parts."""


class EnabledPlugin(ComponentPart, frozen=True):
    """A plugin by name; a weight of 0 means 1."""

    name: str
    weight: Annotated[int, Meta(ge=0, le=10_000)] = 0


class PluginSet(ComponentPart, frozen=True):
    """Plugins enabled and disabled at one extension point."""

    enabled: tuple[EnabledPlugin, ...] = ()
    disabled: tuple[EnabledPlugin, ...] = ()


class Plugins(ComponentPart, frozen=True):
    """The extension points."""

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()
    pod_group_post_filter: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()


class PluginArgs(ComponentPart, frozen=True):
    """The arguments of a plugin, not decoded yet."""

    name: str
    args: dict[str, object] = msgspec.field(default_factory=dict)


class ComponentProfile(ComponentPart, frozen=True):
    """The pods of one scheduler name."""

    scheduler_name: str = "default-scheduler"
    percentage_of_nodes_to_score: Percent | None = None
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginArgs, ...] = ()


class LeaderElection(ComponentPart, frozen=True):
    """Leader election: the lease and its times."""

    leader_elect: bool = True
    lease_duration: str = "15s"
    renew_deadline: str = "10s"
    retry_period: str = "2s"
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


class ClientConnection(ComponentPart, frozen=True):
    """How the API server is reached."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = ""
    qps: float | None = None
    burst: Int32 | None = None


class TlsConfig(ComponentPart, frozen=True):
    """TLS to an extender: the trusted authority and our certificate; data are base64."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: str = ""
    key_data: str = ""
    ca_data: str = ""


class ManagedResource(ComponentPart, frozen=True):
    """A resource that an extender manages."""

    name: str
    ignored_by_scheduler: bool = False


class Extender(ComponentPart, frozen=True):
    """A service that filters and scores nodes."""

    url_prefix: str
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Annotated[int, Meta(ge=0, le=10_000)] = 0
    bind_verb: str = ""
    enable_https: bool = msgspec.field(default=False, name="enableHTTPS")
    tls_config: TlsConfig | None = None
    http_timeout: str | None = msgspec.field(default=None, name="httpTimeout")  # 5s, or less if it binds
    node_cache_capable: bool = False
    managed_resources: tuple[ManagedResource, ...] = ()
    ignorable: bool = False


class ComponentFile(ComponentPart, frozen=True):
    """The whole file."""

    api_version: str
    kind: str
    parallelism: Int32 | None = None
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    health_bind_address: str = msgspec.field(default="", name="healthzBindAddress")
    metrics_bind_address: str = ""
    enable_profiling: bool | None = None
    enable_contention_profiling: bool | None = None
    percentage_of_nodes_to_score: Percent | None = None
    pod_initial_backoff_seconds: Seconds = 1
    pod_max_backoff_seconds: Seconds = 10
    profiles: tuple[ComponentProfile, ...] = (ComponentProfile(),)
    extenders: tuple[Extender, ...] = ()
    delay_cache_until_active: bool = False
