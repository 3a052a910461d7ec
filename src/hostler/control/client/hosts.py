"""Hosts of a control plane, as calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from hostler.control.api.shapes import AllowTeardown, Confirm, Host, HostEdit, Page, Scheduling
from hostler.control.client.pages import items
from hostler.control.client.wire import Wire, path_of

__all__ = ["HostVerb", "Hosts"]

HostVerb = Literal["cordon", "uncordon", "drain", "undrain"]


class Hosts:
    """What can be done with hosts, each named by its name or id."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def list(self, *, state: str = "", limit: int = 0) -> Iterator[Host]:
        """Return the hosts, page by page."""
        return items(self._wire, "/v1/hosts", Page[Host], {"state": state}, limit=limit)

    def get(self, host: str) -> Host:
        """Return a host, while it is drained with those VMs that cannot leave."""
        return self._wire.read(path_of("hosts", host), Host)

    def scheduling(self, host: str) -> Scheduling:
        """Return what a scheduler looks at of a host."""
        return self._wire.read(path_of("hosts", host, "scheduling"), Scheduling)

    def act(self, host: str, verb: HostVerb) -> Host:
        """Take a host out of service for new VMs or for all, or bring it back."""
        return self._wire.change("POST", path_of("hosts", host, verb), Host)

    def force_offline(self, host: str, *, confirm: str) -> Host:
        """Treat a host as gone although nobody knows; its VMs stay where they are."""
        return self._confirmed(host, "force-offline", confirm)

    def confirm_dead(self, host: str, *, confirm: str) -> Host:
        """Give one's word that nothing runs on a host any more, so that its VMs may start elsewhere."""
        return self._confirmed(host, "confirm-dead", confirm)

    def allow_teardown(self, host: str, count: int) -> Host:
        """Let a host tear down many VMs at once."""
        body = AllowTeardown(confirm=count)
        return self._wire.change("POST", path_of("hosts", host, "allow-teardown"), Host, body=body)

    def rotate_credential(self, host: str) -> Host:
        """Give a host's agent a new credential, at its next report."""
        return self._wire.change("POST", path_of("hosts", host, "rotate-credential"), Host)

    def revoke_credential(self, host: str) -> Host:
        """Lock a host's agent out; its VMs run on."""
        return self._wire.change("POST", path_of("hosts", host, "revoke-credential"), Host)

    def edit(self, host: str, edit: HostEdit, *, version: str = "") -> Host:
        """Change labels, taints, overcommitment or reserve."""
        return self._wire.change("PATCH", path_of("hosts", host), Host, body=edit, version=version)

    def delete(self, host: str, *, confirm: str) -> None:
        """Forget a host."""
        self._wire.remove(path_of("hosts", host), {"confirm": confirm})

    def _confirmed(self, host: str, verb: str, name: str) -> Host:
        return self._wire.change("POST", path_of("hosts", host, verb), Host, body=Confirm(confirm=name))
