"""Small Kubernetes objects as a parser would give them, for the tests of this folder."""

from hostler.manifests import node_to_host, pod_to_guest, read_node, read_pod


def node(name="n1", *, metadata=None, spec=None, allocatable=None):
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, **(metadata or {})},
        "spec": spec or {},
        "status": {"allocatable": {"pods": "110"} if allocatable is None else allocatable},
    }


def pod(name="a", *, metadata=None, status=None, containers=None, **spec):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"containers": [container()] if containers is None else containers, **spec},
        "status": status or {},
    }


def container(name="main", *, limits=None, sidecar=False, **requests):
    """A container that requests what the keywords say; a sidecar is for `initContainers`."""
    resources = {"requests": requests} if requests else {}
    if limits is not None:
        resources["limits"] = limits
    restart = {"restartPolicy": "Always"} if sidecar else {}
    return {"name": name, "image": "img", "resources": resources, **restart}


def host_of(data):
    return node_to_host(read_node(data))[0]


def guest_of(data):
    guest, _ = pod_to_guest(read_pod(data))
    assert guest is not None
    return guest


def lines(notes):
    return [note.line() for note in notes]


def thing(kind, name="x", *, version="v1", namespace="", metadata=None, **fields):
    """An object of any kind; keywords are its top-level fields."""
    where = {"namespace": namespace} if namespace else {}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **where, **(metadata or {})}, **fields}


def template(labels=None, *, annotations=None, **spec):
    """What the pods of a workload look like."""
    metadata = {"labels": labels or {}, **({"annotations": annotations} if annotations else {})}
    return {"metadata": metadata, "spec": {"containers": [container()], **spec}}


def owned_by(kind, name, *, uid="", controller=True):
    """Metadata of an object that a user created."""
    return {"ownerReferences": [{"kind": kind, "name": name, "uid": uid, "controller": controller}]}
