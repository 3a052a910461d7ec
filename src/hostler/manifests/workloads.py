"""Workloads to guests: the pods that Deployments, StatefulSets, DaemonSets, Jobs and their like still have to make.

A template is converted once; its pods differ by name only, and those of a DaemonSet by node. Used by
``reader``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from hostler.manifests.daemons import daemon_shape, node_of_daemon, takes_daemon, with_daemon_tolerations
from hostler.manifests.gangs import gang_named_by, has_seed_group
from hostler.manifests.objects import Pod
from hostler.manifests.owners import Owners, has_ended
from hostler.manifests.places import DEFAULT_NAMESPACE, Note, about
from hostler.manifests.pods import read_spec, why_no_guest
from hostler.manifests.replicas import Names, Replicated, batch_of, pod_of_template
from hostler.manifests.surroundings import Surroundings
from hostler.manifests.unevaluated import NOT_EVALUATED, VOLUME_CLAIMS
from hostler.manifests.workload_objects import (
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from hostler.model import Guest, GuestSpec, Host, Selector

__all__ = ["WORKLOADS", "Expansion", "Workload"]

Workload: TypeAlias = Replicated | DaemonSet
WORKLOADS = (Deployment, ReplicaSet, ReplicationController, StatefulSet, DaemonSet, Job, CronJob)

_Made: TypeAlias = tuple[list[Guest], list[Note]]


class Expansion:
    """Makes the missing pods of workloads, given all that the input has."""

    def __init__(
        self,
        *,
        owners: Owners,
        names: Names,
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
        """Make the missing pods of a workload, with notes on what does not count."""
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
            notes.append(Note(place, "spec.volumeClaimTemplates", NOT_EVALUATED))
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
    ) -> tuple[GuestSpec | None, str, list[Note]]:
        """Convert the pod of a template; no spec when its pods would not be placed."""
        namespace = pod.metadata.namespace
        with about(path, "."):
            spec, notes = read_spec(
                pod, namespace, place, self._around, selector, seed_annotations=self._seed_annotations
            )
            gang = gang_named_by(pod, namespace, seed_annotations=self._seed_annotations)
        stays_out = why_no_guest(pod)
        if stays_out:
            field, text = stays_out
            return None, "", [Note(place, f"{path}.{field}", text)]
        if self._seed_annotations and has_seed_group(pod):
            self.seed_gangs.add(gang)
        return spec, gang, [Note(place, f"{path}.{note.field}", note.text) for note in notes]

    def _guest(self, name: str, spec: GuestSpec, host: str, gang: str) -> Guest:
        shared = self._specs.setdefault(spec, spec)
        return Guest(name=name, uid=f"{spec.namespace}/{name}", spec=shared, host=host, gang=gang)
