"""The command that was meant by an unknown one: words of other programs, then nearest names.

``main`` asks here only after a usage error, because the groups of commands are imported to find out what they have.
Every suggestion is a command that exists. The tables map words; they may name commands that a group lacks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import click

from hostler.model.nearest_names import nearest_name

__all__ = ["suggest_command"]

# What other programs call our commands; the first one that a group has counts.
_VERBS: Final[Mapping[str, tuple[str, ...]]] = {
    "add": ("create", "set"),
    "apply": ("create", "edit"),
    "change": ("edit", "resize", "set"),
    "check": ("validate", "get"),
    "current": ("show",),
    "describe": ("get", "show"),
    "destroy": ("delete", "down"),
    "disable": ("cordon", "revoke"),
    "enable": ("uncordon", "resume"),
    "evacuate": ("drain",),
    "find": ("list",),
    "forget": ("delete", "remove"),
    "get": ("get", "show", "list"),
    "halt": ("stop",),
    "info": ("get", "show", "status"),
    "inspect": ("get", "show"),
    "kill": ("stop", "delete", "down"),
    "launch": ("create", "up"),
    "lint": ("validate",),
    "log": ("events", "logs"),
    "logs": ("events",),
    "ls": ("list",),
    "maintenance": ("drain",),
    "make": ("create",),
    "modify": ("edit", "resize"),
    "move": ("migrate",),
    "new": ("create", "set"),
    "ps": ("list",),
    "reboot": ("restart",),
    "remove": ("delete", "remove", "revoke"),
    "rm": ("delete", "remove", "revoke"),
    "scale": ("resize",),
    "select": ("use",),
    "show": ("get", "show"),
    "shutdown": ("stop", "down"),
    "start": ("start", "up"),
    "stop": ("stop", "down"),
    "suspend": ("pause",),
    "switch": ("use",),
    "test": ("validate",),
    "update": ("edit", "resize", "set"),
    "verify": ("validate", "replay"),
    "view": ("get", "show"),
    "why": ("explain",),
}

# What other programs call our groups; an s at the end is taken away before.
_NOUNS: Final[Mapping[str, str]] = {
    "apikey": "key",
    "cluster": "kube",
    "configuration": "config",
    "guest": "vm",
    "hypervisor": "host",
    "instance": "vm",
    "job": "operation",
    "k8s": "kube",
    "kubernetes": "kube",
    "machine": "vm",
    "namespace": "project",
    "no": "host",
    "node": "host",
    "plugin": "plugins",
    "policie": "policies",
    "policy": "policies",
    "profile": "context",
    "queue": "vm queue",
    "server": "host",
    "simulation": "sim",
    "simulator": "sim",
    "strategy": "policies",
    "task": "operation",
    "tenant": "project",
    "virtualmachine": "vm",
}

# Words that mean one command, wherever it is.
_COMMANDS: Final[Mapping[str, str]] = {
    "benchmark": "sim compare",
    "daemon": "serve",
    "demo": "dev up",
    "init": "dev up",
    "log": "events",
    "login": "context set",
    "logs": "events",
    "pods": "vm list",
    "ps": "vm list",
    "quickstart": "dev up",
    "run": "sim run",
    "schedule": "kube schedule",
    "scheduler": "kube schedule",
    "simulate": "sim run",
    "start-server": "serve",
    "status": "vm list",
    "up": "dev up",
    "watch": "events",
    "whoami": "key whoami",
    "why": "explain",
}

# Groups in which a command is looked for that was typed without its group, the likeliest first.
_LOOKED_INTO: Final = ("vm", "host", "config", "journal", "sim", "kube", "context", "key", "dev", "operation")


def suggest_command(context: click.Context, wanted: str, words: Sequence[str]) -> str:
    """Return the command that ``wanted`` in a group stands for, with its path; empty if none is near.

    ``words`` are all words of the command line; those behind the wanted one may name a noun or a verb.
    """
    group = context.command
    if not isinstance(group, click.Group):
        return ""
    behind = [word for word in words[words.index(wanted) + 1 :] if not word.startswith("-")] if wanted in words else []
    is_top = context.parent is None
    found = _by_meaning(context, group, wanted, behind) if is_top else _in_group(context, group, wanted)
    return f"{context.command_path} {found}" if found else ""


def _by_meaning(context: click.Context, top: click.Group, wanted: str, behind: Sequence[str]) -> str:
    """Return the path of the command that a word at the top stands for: a noun, a verb before its noun, or a slip."""
    if noun := _noun(top, context, wanted):
        return _with_verb(top, context, noun, behind)
    if behind and (noun := _noun(top, context, behind[0])):
        group = _group(top, context, noun)
        names_one = len(behind) > 1
        verb = _verb(group, context, wanted, names_one=names_one) if group is not None else ""
        if verb:
            return f"{noun} {verb}"
    if path := _COMMANDS.get(wanted, ""):
        return path
    return _anywhere(top, context, wanted) or nearest_name(wanted, top.list_commands(context))


def _in_group(context: click.Context, group: click.Group, wanted: str) -> str:
    there = group.list_commands(context)
    return _verb(group, context, wanted, names_one=True) or nearest_name(wanted, there) or _prefix(wanted, there)


def _verb(group: click.Group, context: click.Context, wanted: str, *, names_one: bool) -> str:
    """Return the command of a group that a verb stands for; without a name behind it, all things are meant."""
    there = group.list_commands(context)
    if wanted in ("get", "show", "describe") and not names_one and "list" in there:
        return "list"
    return next((verb for verb in (wanted, *_VERBS.get(wanted, ())) if verb in there), "")


def _noun(top: click.Group, context: click.Context, word: str) -> str:
    """Return the group or command at the top that a noun stands for."""
    there = top.list_commands(context)
    singular = word.lower().replace("-", "").removesuffix("s")
    for name in (singular, f"{singular}s", _NOUNS.get(singular, "")):
        if name and name.split()[0] in there and name != word:
            return name
    return word if word in there else ""


def _with_verb(top: click.Group, context: click.Context, noun: str, behind: Sequence[str]) -> str:
    """Return a noun with the verb that follows it, if that is one of its commands or stands for one."""
    group = _group(top, context, noun)
    verb = _verb(group, context, behind[0], names_one=len(behind) > 1) if group is not None and behind else ""
    return f"{noun} {verb}" if verb else noun


def _anywhere(top: click.Group, context: click.Context, wanted: str) -> str:
    """Return the path of a command of this name, or of this meaning, in one of the groups."""
    for is_exact in (True, False):
        for name in _LOOKED_INTO:
            group = _group(top, context, name)
            if group is None:
                continue
            verb = wanted if wanted in group.list_commands(context) else ""
            if not is_exact:
                verb = _verb(group, context, wanted, names_one=True)
            if verb:
                return f"{name} {verb}"
    return ""


def _group(top: click.Group, context: click.Context, name: str) -> click.Group | None:
    """Import a group of commands; none if its packages are not installed."""
    try:
        command = top.get_command(context, name)
    except ImportError:
        return None
    return command if isinstance(command, click.Group) else None


def _prefix(wanted: str, there: Sequence[str]) -> str:
    """Return the command that a longer word begins with, such as start of start-all."""
    return next((name for name in there if wanted.startswith(f"{name}-")), "")
