"""A cluster of plain objects for these tests: objects go to a watched cluster, its facts to an engine.

Objects are written as JSON and decoded as the client does it, so invalid ones become ``UndecodableObject`` here too.
"""

import json

import msgspec

from hostler.engine import Engine
from hostler.engine.policy.policies import find_policy
from hostler.kube.api.client import UndecodableObject
from hostler.kube.api.resources import BUDGETS, CRD_POD_GROUPS, NAMESPACES, NODES, POD_GROUPS, PODS
from hostler.kube.api.store import ObjectUpdate
from hostler.kube.facts import WatchedCluster

OURS = "hostler-scheduler"
PROFILES = {OURS: "kubernetes", "second": "best_fit"}


def decoded(resource, data):
    """Decode an object as the client does."""
    try:
        return msgspec.json.decode(json.dumps(data), type=resource.struct)
    except msgspec.MsgspecError as error:
        metadata = data["metadata"] if isinstance(data["metadata"], dict) else {}
        words = {word: metadata.get(word) for word in ("namespace", "name", "uid")}
        words = {word: text if isinstance(text, str) else "" for word, text in words.items()}
        return UndecodableObject(words["namespace"], words["name"], words["uid"], "", str(error))


class FactCluster:
    """Objects by resource and key, a watched cluster of them, and an engine that gets its facts."""

    def __init__(self, *, is_open=True, **options):
        self.watched = WatchedCluster(PROFILES, **options)
        self.engine = Engine([find_policy(name) for name in ("kubernetes", "best_fit")])
        self.objects = {}
        self.now = 10**18
        if is_open:
            self.open()

    def open(self):
        return self.told(self.watched.open(self.now))

    def put(self, resource, *items):
        """Create or change objects; return the facts."""
        events = []
        for data in items:
            metadata = data.get("metadata", {})
            events += self.put_at(resource, (metadata.get("namespace", ""), metadata.get("name", "")), data)
        return events

    def put_at(self, resource, key, data):
        """Create or change the object under this namespace and name, whatever its metadata says."""
        update = ObjectUpdate(key, self.objects.get((resource.path(), key)), decoded(resource, data))
        self.objects[resource.path(), key] = update.new
        return self.told(self.watched.take(resource, [update], self.now))

    def drop(self, resource, name, namespace=""):
        """Delete an object; return the facts."""
        key = (namespace, name)
        old = self.objects.pop((resource.path(), key))
        return self.told(self.watched.take(resource, [ObjectUpdate(key, old, None)], self.now))

    def told(self, events):
        for event in events:
            self.engine.apply(event)
        return events

    def pods(self, *items):
        return self.put(PODS, *items)

    def nodes(self, *items):
        return self.put(NODES, *items)

    def view(self, name="a", namespace="default"):
        return next(view for view in self.watched.pods.values() if (view.namespace, view.name) == (namespace, name))


def kinds(events):
    return [type(event).__name__ for event in events]


def pod(name="a", *, cpu="1", ours=True, namespace="default", uid=None, labels=None, annotations=None, **fields):
    """A pod; `metadata` and `status` are merged in, other keywords are fields of its spec."""
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{namespace}-{name}" if uid is None else uid,
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        **({"labels": labels} if labels else {}),
        **({"annotations": annotations} if annotations else {}),
        **fields.pop("metadata", {}),
    }
    status = fields.pop("status", {"phase": "Pending"})
    resources = {"requests": {"cpu": cpu}} if cpu else {}
    spec = {
        "containers": [{"name": "main", "image": "img:1", "resources": resources}],
        "schedulerName": OURS if ours else "default-scheduler",
        "priority": 0,
        **fields,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def node(name="n1", *, cpu="8", labels=None, uid=None, version="1", **fields):
    return {
        "metadata": {
            "name": name,
            "uid": uid or f"uid-{name}",
            "resourceVersion": version,
            "labels": {"kubernetes.io/hostname": name, **(labels or {})},
        },
        "spec": fields.pop("spec", {}),
        "status": {"allocatable": {"cpu": cpu, "memory": "32Gi", "pods": "110", **fields.pop("allocatable", {})}},
    }


def named(name, namespace="", **fields):
    """Any object: keywords are its top-level fields, `metadata` is merged in."""
    where = {"namespace": namespace} if namespace else {}
    metadata = {"name": name, "uid": f"uid-{namespace}-{name}", **where, **fields.pop("metadata", {})}
    return {"metadata": metadata, **fields}


def group(name="g", count=2, namespace="default", **spec):
    return named(name, namespace, spec={"schedulingPolicy": {"gang": {"minCount": count}}, **spec})


__all__ = [
    "BUDGETS",
    "CRD_POD_GROUPS",
    "NAMESPACES",
    "NODES",
    "OURS",
    "PODS",
    "POD_GROUPS",
    "FactCluster",
    "decoded",
    "group",
    "kinds",
    "named",
    "node",
    "pod",
]
