"""Real control planes on this machine: find or build the programs, start, inspect and stop them. See ``cluster``."""

from hostler.kube.local.cluster import LocalCluster

__all__ = ["LocalCluster"]
