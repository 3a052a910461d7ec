"""Watched Kubernetes objects become facts for the engine. Pure: no I/O, no clock, no waiting."""

from hostler.kube.facts.kinds import KINDS, WatchedKind
from hostler.kube.facts.views import Counts, PodView
from hostler.kube.facts.watched_cluster import WatchedCluster

__all__ = ["KINDS", "Counts", "PodView", "WatchedCluster", "WatchedKind"]
