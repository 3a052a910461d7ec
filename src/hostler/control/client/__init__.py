"""A control plane from outside, over HTTP: contexts, typed calls, events. For the commands, and for programs."""

from hostler.control.client.client import Client
from hostler.control.client.contexts import Asked, Context, Contexts, reach_for
from hostler.control.client.reach import Reach

__all__ = ["Asked", "Client", "Context", "Contexts", "Reach", "reach_for"]
