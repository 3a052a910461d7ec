"""What happened, in the words of those who have VMs and hosts: the log keeps words for programs. Pure."""

from __future__ import annotations

from hostler.control.vms.spec import VmSpec

__all__ = ["deed_text", "fact_kind", "note_kind", "resize_text"]

_SIZES = ("cpu", "memory")

# What the engine was told, as a kind of event: it speaks of guests and namespaces, nobody else does.
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
    "stopped": "vm.stopped",
    "failed on ": "vm.failed",
    "deleted": "vm.deleted",
    "it makes room ": "vm.evicted",
    "not moved": "vm.not_moved",
}
# What somebody asked for, after who he is. Of VMs it comes true later, of everything else at once.
_OF_VMS = {
    "create": "asked for {name}",
    "migrate": "asked to move {name}",
    "protect": "protected {name} from deletion",
    "unprotect": "took the protection off {name}",
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
    "undrain": "ended the draining of {name}",
    "force-offline": "forced {name} offline",
    "confirm-dead": "confirmed that {name} is dead",
    "allow-teardown": "allowed {name} to remove many VMs",
    "rotate-credential": "asked for a new credential of {name}",
    "revoke-credential": "revoked the credential of {name}",
}


def fact_kind(tag: str) -> str:
    """Return the kind of event that a fact is: ``host_joined`` is ``host.joined``."""
    return _FACTS.get(tag) or tag.replace("_", ".", 1)


def note_kind(text: str) -> str:
    """Return the kind of event that a word about a VM is."""
    return next((kind for begin, kind in _NOTES.items() if text.startswith(begin)), "note")


def deed_text(what: str, name: str) -> str:
    """Say what somebody did, after his name: ``vm.create`` and ``web`` are ``asked for web``."""
    of, _, verb = what.partition(".")
    if of == "vm":
        return _OF_VMS.get(verb, f"asked to {verb} {{name}}").format(name=name)
    return _OF_OTHERS.get(verb, f"{verb} {{name}}").format(name=name)


def resize_text(name: str, before: VmSpec, after: VmSpec) -> str:
    """Say what somebody changed of a VM: sizes from what to what, all else by its name."""
    fields = [field for field in VmSpec.__struct_fields__ if getattr(before, field) != getattr(after, field)]
    sizes = [f"{field} {getattr(before, field)} → {getattr(after, field)}" for field in _SIZES if field in fields]
    others = [field.replace("_", " ") for field in fields if field not in _SIZES]
    return f"{deed_text('vm.resize', name)}: {', '.join(sizes + others)}"
