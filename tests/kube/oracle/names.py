"""The names in random clusters: few, so that objects match."""

from __future__ import annotations

NAMESPACES = ("default", "other", "third")
NAMESPACE_LABELS = {"default": {}, "other": {"team": "red"}, "third": {"team": "blue"}}

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
RACK = "example.com/rack"
DISK = "disk"
SIZE = "size"  # a number, for the operators Gt and Lt

ZONES = ("z1", "z2", "z3")
RACKS = ("r1", "r2", "r3", "r4")
NODE_LABELS = {ZONE: ZONES, RACK: RACKS, DISK: ("ssd", "hdd")}

APPS = ("web", "db", "queue")
TIERS = ("front", "back")
TRACKS = ("stable", "canary")

WIDGET = "example.com/widget"
HUGE = "hugepages-2Mi"
IMAGES = {"img-a": 30_000_000, "img-b:2": 400_000_000, "img-c": 900_000_000, "registry.example/img-d:1": 2_000_000_000}

RUNTIME_CLASS = "heavy"  # pods of it have this overhead
OVERHEAD = {"cpu": "250m", "memory": "120Mi"}
SCHEDULER = "default-scheduler"
