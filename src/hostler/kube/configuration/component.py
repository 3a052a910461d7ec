"""Convert a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1) to scheduler settings.

Features that Hostler lacks are listed in the notes. Settings that would place pods differently are rejected, see
``problems``.
"""

from __future__ import annotations

import base64
import binascii

from hostler.config import Document, convert, invalid, kind_of, quote
from hostler.config.entries import check_name
from hostler.config.key_paths import Path
from hostler.errors import DuplicateNameError
from hostler.kube.configuration.component_file import ComponentFile, Extender, LeaderElection, TlsConfig
from hostler.kube.configuration.component_profiles import ReadProfile, read_profile
from hostler.kube.configuration.election import check_election_entry
from hostler.kube.configuration.extenders import NS_PER_S, check_extenders, extender_timeout, seconds_of
from hostler.kube.configuration.problems import ConfigurationProblems
from hostler.kube.configuration.scheduler_settings import bind_timeout
from hostler.kube.settings import ApiLimits, Election, ExtenderSettings, SchedulerProfile, SchedulerSettings
from hostler.model import QueueRules

__all__ = ["COMPONENT_GROUP", "COMPONENT_KIND", "read_component"]

COMPONENT_GROUP = "kubescheduler.config.k8s.io"
COMPONENT_KIND = "KubeSchedulerConfiguration"
_VERSION = f"{COMPONENT_GROUP}/v1"
_ELECTION_KEYS = {
    "namespace": "resourceNamespace",
    "name": "resourceName",
    "lease": "leaseDuration",
    "renew": "renewDeadline",
    "retry": "retryPeriod",
}
_IDLE = {
    "parallelism": "is ignored: decisions are vectorized, not spread over threads",
    "healthzBindAddress": "is ignored: 'listen' sets the address of the probes",
    "metricsBindAddress": "is ignored: 'listen' sets the address of the metrics",
    "enableProfiling": "is ignored: there is no Go profiler",
    "enableContentionProfiling": "is ignored: there is no Go profiler",
    "delayCacheUntilActive": "is ignored: a standby does not list or watch the cluster",
}


def read_component(document: Document, *, lenient: bool = False) -> SchedulerSettings:
    """Return the settings that a KubeSchedulerConfiguration describes."""
    version, kind = kind_of(document)
    if kind != COMPONENT_KIND:
        raise invalid(document, ("kind",), f"is {quote(kind)}", hint=f"write {COMPONENT_KIND}")
    if version != _VERSION:
        raise invalid(document, ("apiVersion",), f"is {quote(version)}", hint=f"convert it to {_VERSION}")
    data = _without_nulls(document.data)
    file = convert(document, data, ComponentFile)
    problems = ConfigurationProblems(document, is_lenient=lenient)
    for key, text in _IDLE.items():
        if isinstance(data, dict) and data.get(key) not in (None, False, ""):
            problems.note((key,), text)
    if file.percentage_of_nodes_to_score not in (None, 100):
        problems.note(("percentageOfNodesToScore",), "is ignored: all nodes are evaluated")
    profiles = _profiles(problems, file)
    election = _election(document, file.leader_election)
    _note_client_settings(problems, file)
    return SchedulerSettings(
        profiles=tuple(SchedulerProfile(one.policy.name, one.policy.name) for one in profiles),
        policies=tuple(one.policy for one in profiles),
        queue=_queue(problems, file, profiles),
        election=election,
        limits=ApiLimits(bind_timeout_s=bind_timeout(election)),
        extenders=_extenders(problems, file.extenders, election),
        kubeconfig=file.client_connection.kubeconfig,
        notes=problems.notes,
    )


def _without_nulls(value: object) -> object:
    """Drop keys without a value, which Kubernetes treats as absent. Lists keep their positions."""
    if isinstance(value, dict):
        return {key: _without_nulls(one) for key, one in value.items() if one is not None}
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value


def _profiles(problems: ConfigurationProblems, file: ComponentFile) -> list[ReadProfile]:
    document = problems.document
    if not file.profiles:
        raise invalid(document, ("profiles",), "is empty", hint="give one profile, or leave it out")
    found: dict[str, ReadProfile] = {}
    for index, profile in enumerate(file.profiles):
        path: Path = ("profiles", index)
        check_name(document, (*path, "schedulerName"), profile.scheduler_name)
        if profile.scheduler_name in found:
            raise DuplicateNameError(
                f"{document.where((*path, 'schedulerName'))}: two profiles are for {quote(profile.scheduler_name)}",
                hint="pods name one scheduler; keep one of them",
            )
        found[profile.scheduler_name] = read_profile(problems, path, profile)
    return list(found.values())


def _queue(problems: ConfigurationProblems, file: ComponentFile, profiles: list[ReadProfile]) -> QueueRules:
    if file.pod_max_backoff_seconds < file.pod_initial_backoff_seconds:
        hint = "raise it"
        raise invalid(problems.document, ("podMaxBackoffSeconds",), "is below podInitialBackoffSeconds", hint=hint)
    timeouts = {one.prepare_timeout_s for one in profiles}
    if len(timeouts) > 1:
        problems.note(("profiles",), f"differ in bindTimeoutSeconds of VolumeBinding; {max(timeouts)} counts for all")
    return QueueRules(
        backoff_initial_ns=file.pod_initial_backoff_seconds * NS_PER_S,
        backoff_max_ns=file.pod_max_backoff_seconds * NS_PER_S,
        prepare_timeout_ns=(max(timeouts) or QueueRules().prepare_timeout_ns // NS_PER_S) * NS_PER_S,
    )


def _election(document: Document, entry: LeaderElection) -> Election:
    path: Path = ("leaderElection",)
    if entry.resource_lock != "leases":
        raise invalid(document, (*path, "resourceLock"), f"is {quote(entry.resource_lock)}", hint="write leases")
    lease = seconds_of(document, (*path, "leaseDuration"), entry.lease_duration)
    renew = seconds_of(document, (*path, "renewDeadline"), entry.renew_deadline)
    retry = seconds_of(document, (*path, "retryPeriod"), entry.retry_period)
    election = Election(
        is_on=entry.leader_elect,
        namespace=entry.resource_namespace,
        name=entry.resource_name,
        lease_s=lease,
        renew_s=renew,
        retry_s=retry,
    )
    check_election_entry(document, path, election, _ELECTION_KEYS)
    return election


def _note_client_settings(problems: ConfigurationProblems, file: ComponentFile) -> None:
    client = file.client_connection
    if client.qps is not None:
        problems.note(("clientConnection", "qps"), "is ignored: the API server's fairness limits the rate")
    if client.burst is not None:
        problems.note(("clientConnection", "burst"), "is ignored: the API server's fairness limits the rate")
    for key, value in (("contentType", client.content_type), ("acceptContentTypes", client.accept_content_types)):
        if value and value != "application/json":
            problems.note(("clientConnection", key), "is ignored: JSON is used")


def _extenders(
    problems: ConfigurationProblems, entries: tuple[Extender, ...], election: Election
) -> tuple[ExtenderSettings, ...]:
    document = problems.document
    found = []
    for index, entry in enumerate(entries):
        path: Path = ("extenders", index)
        tls = entry.tls_config or TlsConfig()
        if tls.insecure and (tls.ca_file or tls.ca_data):
            raise invalid(
                document, (*path, "tlsConfig"), "is insecure and has a certificate authority", hint="keep one of them"
            )
        if entry.enable_https and not (tls.insecure or tls.ca_file or tls.ca_data):
            text = "without tlsConfig trusts any certificate in kube-scheduler; here the system's authorities verify it"
            problems.note((*path, "enableHTTPS"), text)
        found.append(
            ExtenderSettings(
                url_prefix=entry.url_prefix,
                filter_verb=entry.filter_verb,
                prioritize_verb=entry.prioritize_verb,
                preempt_verb=entry.preempt_verb,
                bind_verb=entry.bind_verb,
                weight=entry.weight,
                timeout_s=extender_timeout(
                    document,
                    (*path, "httpTimeout"),
                    entry.http_timeout,
                    election if entry.bind_verb else None,
                    "leaderElection.leaseDuration",
                ),
                is_node_cache_capable=entry.node_cache_capable,
                managed_resources=tuple(one.name for one in entry.managed_resources),
                ignored_resources=tuple(one.name for one in entry.managed_resources if one.ignored_by_scheduler),
                is_ignorable=entry.ignorable,
                ca_file=tls.ca_file,
                ca_data=_pem(document, (*path, "tlsConfig", "caData"), tls.ca_data),
                cert_file=tls.cert_file,
                cert_data=_pem(document, (*path, "tlsConfig", "certData"), tls.cert_data),
                key_file=tls.key_file,
                key_data=_pem(document, (*path, "tlsConfig", "keyData"), tls.key_data),
                server_name=tls.server_name,
                is_insecure=tls.insecure,
            )
        )
    check_extenders(problems, found, ("urlPrefix", "weight", "preemptVerb", "bindVerb", "managedResources"))
    return tuple(found)


def _pem(document: Document, path: Path, text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        raise invalid(document, path, "is not PEM in base64", hint="encode the file with base64") from None
