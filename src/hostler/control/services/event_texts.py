"""The kind and the text of events, in the words of users: VMs and projects instead of guests and namespaces. Pure."""

from __future__ import annotations

from hostler.control.vms.spec import VmSpec

__all__ = ["action_text", "fact_kind", "note_kind", "resize_text"]

_SIZES = ("cpu", "memory")

# Facts as kinds of events: the engine's guests and namespaces are VMs and projects outside.
_FACTS = {
    "guest_arrived": "vm.waiting",
    "guest_bound": "vm.placed",
    "guest_changed": "vm.changed",
    "guest_left": "vm.released",
    "bind_failed": "vm.not_placed",
    "evict_failed": "vm.not_evicted",
    "namespace_changed": "project.labelled",
    "policy_changed": "strategies.changed",
}
# How the words begin that owners of VMs are told.
_NOTES = {
    "running on ": "vm.running",
    "paused on ": "vm.paused",
    "stopped to make room ": "vm.evicted",
    "stopped": "vm.stopped",
    "failed on ": "vm.failed",
    "deleted": "vm.deleted",
    "it makes room ": "vm.evicted",  # as older releases wrote it
    "moves to ": "vm.moving",
    "moved to ": "vm.moved",
    "not moved": "vm.not_moved",
    "the move is given up": "vm.not_moved",
}
_HOST_NOTES = {
    "deleted": "host.deleted",
    "not heard ": "host.silent",
    "proved dead": "host.dead",
}
# What an actor did, to follow the actor's name. For VMs it is a request, for everything else it is done.
_OF_VMS = {
    "create": "asked to create {name}",
    "migrate": "asked to move {name}",
    "protect": "protected {name} from deletion",
    "unprotect": "removed the protection of {name}",
}
_OF_OTHERS = {
    "create": "created {name}",
    "change": "changed {name}",
    "delete": "deleted {name}",
    "revoke": "revoked {name}",
    "open": "logged in with key {name}",  # a session
    "cordon": "cordoned {name}",
    "uncordon": "uncordoned {name}",
    "drain": "began to drain {name}",
    "undrain": "stopped draining {name}",
    "force-offline": "forced {name} offline",
    "confirm-dead": "confirmed that {name} is dead",
    "allow-teardown": "allowed {name} to remove many VMs",
    "rotate-credential": "rotated the credential of {name}",
    "revoke-credential": "revoked the credential of {name}",
}


def fact_kind(tag: str) -> str:
    """Return the kind of event that a fact is: ``host_joined`` is ``host.joined``."""
    return _FACTS.get(tag) or tag.replace("_", ".", 1)


def note_kind(text: str, *, of_host: bool = False) -> str:
    """Return the kind of event that a note about a VM or a host is."""
    kinds = _HOST_NOTES if of_host else _NOTES
    return next((kind for begin, kind in kinds.items() if text.startswith(begin)), "note")


def action_text(what: str, name: str) -> str:
    """Describe an action, to follow its actor: ``vm.create`` and ``web`` give ``asked for web``."""
    of, _, verb = what.partition(".")
    if of == "vm":
        return _OF_VMS.get(verb, f"asked to {verb} {{name}}").format(name=name)
    return _OF_OTHERS.get(verb, f"{verb} {{name}}").format(name=name)


def resize_text(name: str, before: VmSpec, after: VmSpec) -> str:
    """Describe a resize: sizes with old and new value, other fields by name."""
    fields = [field for field in VmSpec.__struct_fields__ if getattr(before, field) != getattr(after, field)]
    sizes = [f"{field} {getattr(before, field)} → {getattr(after, field)}" for field in _SIZES if field in fields]
    others = [field.replace("_", " ") for field in fields if field not in _SIZES]
    return f"{action_text('vm.resize', name)}: {', '.join(sizes + others)}"
