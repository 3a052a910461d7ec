"""Workloads to guests: the pods that Deployments, StatefulSets, DaemonSets, Jobs and so on still have to create.

A template is converted once; its pods differ by name only, and those of a DaemonSet by node. Daemons are placed as the
DaemonSet controller does it: labels, names and hard taints of a node decide whether it gets a pod at all, and its free
amounts do not; an affinity binds the pod to its node. Used by ``reader``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from hostler.manifests.objects.core import Pod
from hostler.manifests.objects.workloads import (
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from hostler.manifests.places import DEFAULT_NAMESPACE, ManifestNote, about
from hostler.manifests.pods.constraints import NAME_FIELD
from hostler.manifests.pods.gangs import gang_named_by, has_seed_group
from hostler.manifests.pods.guests import read_spec, why_no_guest
from hostler.manifests.pods.surroundings import Surroundings
from hostler.manifests.pods.unevaluated_fields import NOT_EVALUATED
from hostler.manifests.scheduler_message import VOLUME_CLAIMS
from hostler.manifests.workloads.owners import Owners, has_ended
from hostler.manifests.workloads.replicas import PodNames, Replicated, batch_of, pod_of_template
from hostler.model import Expression, Guest, GuestSpec, Host, Selector, Term, Toleration
from hostler.model.selectors import Effect

__all__ = [
    "WORKLOADS",
    "Workload",
    "WorkloadExpansion",
    "daemon_shape",
    "node_of_daemon",
    "takes_daemon",
    "with_daemon_tolerations",
]  # fmt: skip

_CONDITIONS: tuple[tuple[str, Effect], ...] = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
# A pod on the node's own network does not wait for the one of pods.
_NO_NETWORK: tuple[str, Effect] = ("node.kubernetes.io/network-unavailable", "NoSchedule")


def with_daemon_tolerations(spec: GuestSpec, *, host_network: bool) -> GuestSpec:
    """Add the tolerations that every daemon has."""
    conditions = (*_CONDITIONS, _NO_NETWORK) if host_network else _CONDITIONS
    added = (Toleration(key, "Exists", "", effect) for key, effect in conditions)
    return msgspec.structs.replace(spec, tolerations=tuple(dict.fromkeys((*spec.tolerations, *added))))


def takes_daemon(host: Host, spec: GuestSpec, node_name: str) -> bool:
    """Say whether a node gets a pod of this shape; ``node_name`` is the only possible node, if given."""
    if node_name and node_name != host.name:
        return False
    if not set(spec.host_selector) <= set(host.labels):
        return False
    if spec.host_affinity and not any(term.matches(host.name, host.labels) for term in spec.host_affinity):
        return False
    hard = (taint for taint in host.taints if taint.effect != "PreferNoSchedule")
    return all(any(item.tolerates(taint) for item in spec.tolerations) for taint in hard)


def daemon_shape(spec: GuestSpec, node_name: str) -> GuestSpec:
    """Bind a shape to a node; the template's requirements on nodes were checked before and are replaced."""
    only = Term((), (Expression(NAME_FIELD, "In", (node_name,)),))
    return msgspec.structs.replace(spec, host_affinity=(only,))


def node_of_daemon(pod: Pod) -> str:
    """Return the node that an existing daemon runs on or waits for."""
    if pod.spec.node_name:
        return pod.spec.node_name
    required = pod.spec.affinity.node_affinity.required
    fields = (item for term in (required.node_selector_terms if required else ()) for item in term.match_fields)
    return next((item.values[0] for item in fields if item.key == NAME_FIELD and len(item.values) == 1), "")


Workload: TypeAlias = Replicated | DaemonSet
WORKLOADS = (Deployment, ReplicaSet, ReplicationController, StatefulSet, DaemonSet, Job, CronJob)

_Made: TypeAlias = tuple[list[Guest], list[ManifestNote]]


class WorkloadExpansion:
    """Creates the missing pods of workloads, given all objects of the input."""

    def __init__(
        self,
        *,
        owners: Owners,
        names: PodNames,
        around: Surroundings,
        hosts: Sequence[Host],
        specs: dict[GuestSpec, GuestSpec],
        seed_annotations: bool,
    ) -> None:
        self._owners = owners
        self._names = names
        self._around = around
        self._hosts = hosts
        self._specs = specs
        self._seed_annotations = seed_annotations
        self.seed_gangs: set[str] = set()  # gangs that annotations of templates name

    def expand(self, workload: Workload, place: str) -> _Made:
        """Create the missing pods of a workload, with notes on ignored fields."""
        if isinstance(workload, DaemonSet):
            return self._daemons(workload, place)
        batch = batch_of(workload, place, self._owners, self._names)
        if batch.pod is None:
            return [], list(batch.notes)
        spec, gang, notes = self._read(batch.pod, place, batch.path, batch.selector)
        if not batch.names:
            return [], list(batch.notes)  # the template was checked, but nothing comes of it
        notes = [*batch.notes, *notes]
        if spec is None:
            return [], notes
        if batch.has_claims and not batch.pod.spec.node_name:
            unsupported = tuple(dict.fromkeys((VOLUME_CLAIMS, *spec.unsupported)))
            spec = msgspec.structs.replace(spec, unsupported=unsupported)
            notes.append(ManifestNote(place, "spec.volumeClaimTemplates", NOT_EVALUATED))
        bound_to = batch.pod.spec.node_name
        return [self._guest(name, spec, bound_to, gang) for name in batch.names], notes

    def _daemons(self, workload: DaemonSet, place: str) -> _Made:
        metadata = workload.metadata
        pod = pod_of_template(metadata, workload.spec.template)
        spec, gang, notes = self._read(pod, place, "spec.template", None)
        if spec is None:
            return [], notes
        wanted = pod.spec.node_name
        spec = with_daemon_tolerations(spec, host_network=pod.spec.host_network)
        present = {node_of_daemon(one) for one in self._owners.pods_of("DaemonSet", metadata) if not has_ended(one)}
        guests = []
        for host in self._hosts:
            if host.name in present or not takes_daemon(host, spec, wanted):
                continue
            name = self._names.take_like(metadata.namespace or DEFAULT_NAMESPACE, f"{metadata.name}-{host.name}")
            guests.append(self._guest(name, daemon_shape(spec, host.name), wanted, gang))
        return guests, notes

    def _read(
        self, pod: Pod, place: str, path: str, selector: Selector | None
    ) -> tuple[GuestSpec | None, str, list[ManifestNote]]:
        """Convert the pod of a template; no spec if its pods would not be placed."""
        namespace = pod.metadata.namespace
        with about(path, "."):
            spec, notes = read_spec(
                pod, namespace, place, self._around, selector, seed_annotations=self._seed_annotations
            )
            gang = gang_named_by(pod, namespace, seed_annotations=self._seed_annotations)
        stays_out = why_no_guest(pod)
        if stays_out:
            field, text = stays_out
            return None, "", [ManifestNote(place, f"{path}.{field}", text)]
        if self._seed_annotations and has_seed_group(pod):
            self.seed_gangs.add(gang)
        return spec, gang, [ManifestNote(place, f"{path}.{note.field}", note.text) for note in notes]

    def _guest(self, name: str, spec: GuestSpec, host: str, gang: str) -> Guest:
        shared = self._specs.setdefault(spec, spec)
        return Guest(name=name, uid=f"{spec.namespace}/{name}", spec=shared, host=host, gang=gang)
