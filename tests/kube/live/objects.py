"""Pods for tests on live clusters."""

from __future__ import annotations

import json

OURS = "hostler-scheduler"


def pod(name, cpu="1", *, namespace="default", node="", scheduler=OURS, labels=None, **spec):
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]
    more = {"nodeName": node} if node else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels or {}},
        "spec": {"containers": containers, "schedulerName": scheduler, **more, **spec},
    }


def deployment(name, replicas, cpu="1", **spec):
    template = {"metadata": {"labels": {"app": name}}, "spec": pod("x", cpu, **spec)["spec"]}
    selector = {"matchLabels": {"app": name}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": selector, "template": template},
    }


def write(path, *items):
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return path
