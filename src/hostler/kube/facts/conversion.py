"""Convert one pod to a guest, with everything that its meaning depends on in a live cluster.

A pending pod is converted completely or rejected. A running pod holds its room in any case, so of an invalid one at
least the requests are counted. Used by ``pods``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

import msgspec

from hostler.errors import InputError
from hostler.kube.facts.bounds import NameShares, check_spec, clip_spec
from hostler.kube.facts.groups import GroupBook, Member
from hostler.kube.facts.hosts import HostBook
from hostler.kube.facts.problems import CONVERSION_ERRORS, text_of
from hostler.kube.facts.views import scheduler_of
from hostler.kube.facts.volume_terms import both
from hostler.kube.facts.volumes import Needs, Volumes
from hostler.manifests.objects.core import Pod
from hostler.manifests.places import DEFAULT_NAMESPACE, check_name
from hostler.manifests.pods.gangs import gang_named_by, has_seed_group, seed_group_max, seed_group_min
from hostler.manifests.pods.gpus import gpu_indices
from hostler.manifests.pods.guests import read_spec
from hostler.manifests.pods.priorities import check_priority
from hostler.manifests.pods.requests import pod_requests
from hostler.manifests.pods.surroundings import Surroundings
from hostler.manifests.times import nanoseconds
from hostler.model import Amounts, Guest, GuestSpec, Selector, add_amounts, labels

__all__ = ["Conversion"]

_MAX_NAME = 253


class Conversion:
    """Converts pods."""

    def __init__(
        self,
        profiles: Mapping[str, str],
        around: Surroundings,
        volumes: Volumes,
        hosts: HostBook,
        groups: GroupBook,
        names: NameShares,
        *,
        seed_annotations: bool,
    ) -> None:
        self.profiles = profiles
        self._around = around
        self._volumes = volumes
        self._hosts = hosts
        self._groups = groups
        self._names = names
        self._seed_annotations = seed_annotations

    def group_of(self, pod: Pod) -> str:
        """Return the key of the group that a pod names; an invalid name means no group."""
        try:
            return gang_named_by(pod, _namespace(pod), seed_annotations=self._seed_annotations)
        except InputError:
            return ""

    def member(self, pod: Pod, priority: int) -> Member:
        """Return a pod as a member of its group."""
        is_seed = self._seed_annotations and has_seed_group(pod)
        minimum = maximum = 0
        if is_seed:
            with contextlib.suppress(InputError):  # of a running pod; a pending one was rejected
                minimum, maximum = seed_group_min(pod) or 0, seed_group_max(pod) or 0
        return Member(scheduler_of(pod), priority, is_seed, minimum, maximum)

    def pending(self, uid: str, pod: Pod) -> Guest:
        """Convert a pending pod; raise if it is invalid."""
        self._check_names(pod)
        group = gang_named_by(pod, _namespace(pod), seed_annotations=self._seed_annotations)
        if self._seed_annotations and has_seed_group(pod):
            seed_group_min(pod)
            seed_group_max(pod)
        spec = check_spec(self._spec(uid, pod), self._names, uid)
        if group:
            problem = self._groups.why_unfit(group, uid, spec, scheduler_of(pod))
            if problem:
                raise InputError(problem)
        return Guest(name=pod.metadata.name, uid=uid, spec=spec, gang=group)

    def forget(self, uid: str) -> None:
        """Release the names of resources and devices that a pod has."""
        self._names.forget_pod(uid)

    def late(self) -> list[str]:
        """Return pods that were rejected because their namespace used too many names, and fit now."""
        return self._names.late_pods()

    def running(self, uid: str, pod: Pod, siblings: Selector | None) -> tuple[Guest, str]:
        """Convert a running pod; also return which parts could not be converted.

        ``siblings`` are those of its last conversion. They no longer matter, but keeping them keeps the shape equal.
        """
        problem, started = "", 0
        devices: tuple[int, ...] = ()
        try:
            self._check_names(pod)
            spec = self._spec(uid, pod)
            started = nanoseconds(pod.status.start_time, "status.startTime")
            devices = gpu_indices(pod.metadata.annotations, spec.devices)
            if devices and not self._hosts.has_devices(pod.spec.node_name, spec.devices, devices):
                problem, devices = "its annotations name devices that its node does not have", ()
        except CONVERSION_ERRORS as error:
            spec, problem, devices = self._remains(pod), text_of(error), ()
        spec, cut = clip_spec(spec, self._names, uid)
        if cut:
            devices = ()
        if siblings is not None:
            spec = msgspec.structs.replace(spec, siblings=siblings)
        guest = Guest(
            name=pod.metadata.name[:_MAX_NAME] or uid,
            uid=uid,
            spec=spec,
            host=pod.spec.node_name,
            on_devices=devices,
            started=started,
            gang=self.group_of(pod),
        )
        return guest, problem or cut

    def _spec(self, uid: str, pod: Pod) -> GuestSpec:
        spec, _ = read_spec(
            pod,
            _namespace(pod),
            "",
            self._around,
            None if pod.spec.node_name else self._around.controller_selector(pod.metadata),
            seed_annotations=self._seed_annotations,
            is_live=True,
        )
        policy = self.profiles.get(scheduler_of(pod), "")
        needs = self._volumes.needs(uid, pod) if pod.spec.volumes else Needs()
        if needs == Needs():
            return msgspec.structs.replace(spec, policy=policy) if policy else spec
        refusal, affinity = needs.refusal, spec.host_affinity
        try:
            affinity = both(affinity, needs.terms)
        except InputError as error:
            refusal = refusal or error.message
        return msgspec.structs.replace(
            spec,
            policy=policy,
            requests=add_amounts((spec.requests, needs.counts)),
            host_affinity=affinity,
            prepare=needs.prepare,
            unsupported=(refusal, *spec.unsupported) if refusal else spec.unsupported,
        )

    def _remains(self, pod: Pod) -> GuestSpec:
        """Return what can be converted of an invalid running pod: its requests, or a guest without any."""
        requests: Amounts
        try:
            requests = pod_requests(pod)
        except CONVERSION_ERRORS:
            requests = ()
        try:
            priority = check_priority(pod.spec.priority or 0, "spec.priority")
        except InputError:
            priority = 0
        return GuestSpec(
            requests=requests,
            priority=priority,
            policy=self.profiles.get(scheduler_of(pod), ""),
            namespace=_namespace(pod),
            labels=labels({key: value for key, value in pod.metadata.labels.items() if key}),
            is_leaving=pod.metadata.deletion_timestamp is not None,
        )

    def _check_names(self, pod: Pod) -> None:
        if not pod.metadata.name:
            raise InputError("metadata.name is missing")
        check_name(pod.metadata.name, "metadata.name")
        check_name(pod.metadata.namespace, "metadata.namespace")


def _namespace(pod: Pod) -> str:
    return pod.metadata.namespace or DEFAULT_NAMESPACE
