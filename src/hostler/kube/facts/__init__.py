"""The way in: watched Kubernetes objects become facts for the engine. Pure: no I/O, no clock, no waiting."""

from hostler.kube.facts.kinds import KINDS, Kind
from hostler.kube.facts.views import Counts, PodView
from hostler.kube.facts.world import World

__all__ = ["KINDS", "Counts", "Kind", "PodView", "World"]
