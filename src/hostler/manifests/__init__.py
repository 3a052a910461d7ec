"""Kubernetes objects to and from the model: plain data or bytes in, hosts, guests and their like out; no I/O.

``place``, ``explain`` and the simulator read files through :func:`read_manifests`; a live client decodes
bytes into :class:`Node` and :class:`Pod` and converts them one by one, with :class:`Surroundings` for what
pods depend on.
"""

from hostler.manifests.decoding import read_node, read_pod
from hostler.manifests.lists import Manifests, is_manifest, read_manifests
from hostler.manifests.nodes import host_to_node, node_to_host
from hostler.manifests.objects import Node, Pod
from hostler.manifests.places import Note
from hostler.manifests.pod_writing import guest_to_pod
from hostler.manifests.pods import pod_to_guest
from hostler.manifests.requests import pod_requests
from hostler.manifests.surroundings import Surroundings

__all__ = [
    "Manifests",
    "Node",
    "Note",
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
]
