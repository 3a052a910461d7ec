"""A client of the control plane over HTTP: contexts, typed calls, event streams. For the commands, and for programs."""

from hostler.control.client.client import Client
from hostler.control.client.contexts import ClientContext, Contexts, TargetOptions, resolve_target
from hostler.control.client.server_target import ServerTarget

__all__ = ["Client", "ClientContext", "Contexts", "ServerTarget", "TargetOptions", "resolve_target"]
