"""Kubernetes objects to and from the model: plain data or bytes in, hosts and guests out. No I/O.

``place``, ``explain`` and the simulator read files through :func:`read_manifests`. A live client decodes bytes into
:class:`Node` and :class:`Pod` and converts them one by one, with :class:`Surroundings` for the objects that pods depend
on.
"""

from hostler.manifests.decoder import read_node, read_pod
from hostler.manifests.nodes import host_to_node, node_to_host
from hostler.manifests.objects.core import Node, Pod
from hostler.manifests.places import ManifestNote
from hostler.manifests.pods.guests import pod_to_guest
from hostler.manifests.pods.output import guest_to_pod
from hostler.manifests.pods.requests import pod_requests
from hostler.manifests.pods.surroundings import Surroundings
from hostler.manifests.reader import Manifests, is_manifest, read_manifests

__all__ = [
    "ManifestNote",
    "Manifests",
    "Node",
    "Pod",
    "Surroundings",
    "guest_to_pod",
    "host_to_node",
    "is_manifest",
    "node_to_host",
    "pod_requests",
    "pod_to_guest",
    "read_manifests",
    "read_node",
    "read_pod",
]  # fmt: skip
