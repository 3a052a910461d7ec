"""Real control planes on this machine: found or built, started, looked at and ended. See ``cluster``."""

from hostler.kube.local.cluster import LocalCluster

__all__ = ["LocalCluster"]
