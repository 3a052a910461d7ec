"""Hints in the words of these commands, where a control plane could only speak in general."""

from __future__ import annotations

import re

__all__ = ["NO_HOSTS", "hint_for_forbidden", "hint_for_refused", "hint_for_unknown", "none_in", "none_yet"]

NO_HOSTS = "there are no hosts yet: 'hostler token create' lets one join"

_COMMANDS = ("vm", "host", "token", "project", "quota", "reservation", "gang", "key")
_OTHER_PROJECT = re.compile(r"this key is for project (\S+) only, not for ")
_REFUSED = (
    (
        re.compile(r"^VM (\S+) is protected from deletion$"),
        "take the protection off first: 'hostler vm resize {} --no-protected'",
    ),
    (
        re.compile(r"^VM (\S+) is moving to another host$"),
        "wait until it has arrived, or call the move off: 'hostler vm migrate {} --cancel'",
    ),
    (
        re.compile(r"^VM (\S+) may only be on host \S+$"),
        "let it be elsewhere first: 'hostler vm resize {} --host NAME', or --host '' for any",
    ),
    (re.compile(r": there is no host '"), "'hostler host list' shows the hosts that there are"),
)


def hint_for_forbidden(message: str) -> str:
    """Return how to name the project that a key is for, where another was meant; empty for other refusals."""
    found = _OTHER_PROJECT.match(message)
    return f"name that project with -p {found[1]}; else ask an administrator for a key that may" if found else ""


def hint_for_refused(message: str) -> str:
    """Return which command helps against a refusal for which the service knows no command; empty for others."""
    for pattern, hint in _REFUSED:
        if found := pattern.search(message):
            return hint.format(*found.groups())
    return ""


def hint_for_unknown(message: str) -> str:
    """Return which command lists what was looked for, by the word that a refusal begins with; empty for others."""
    word = message.partition(" ")[0].lower()
    return f"'hostler {word} list' shows what there is" if word in _COMMANDS else ""


def none_in(project: str, what: str) -> str:
    """Say that a list is empty, and where there may be more: whoever named a project once is in his own again."""
    if not project:
        return f"there are no {what} in any project"
    return f"there are no {what} in project {project}; -p names another project, -A means all"


def none_yet(project: str, what: str, make: str) -> str:
    """Say of a whole list that it is empty, and how that ends; else as ``none_in``."""
    if not project:
        return f"there are no {what} yet in any project: {make}"
    return f"there are no {what} in project {project} yet: {make}; -p names another project, -A means all"
