"""Contexts: named control planes, each with its key and project, one of them the current one.

They stand in ``contexts.yaml`` of the user's configuration folder; keys lie beside it in files of their own. All of it
is readable by its owner only. What is said on the command line beats the environment, and that beats the file.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from hostler.config import API_VERSION, config_folder, convert, did_you_mean, read_documents, write_yaml
from hostler.control.client.reach import DEFAULT_PROJECT, Reach, check_server, read_key
from hostler.control.vms.spec import check_word
from hostler.errors import InputError, UnknownNameError

__all__ = [
    "Asked",
    "Context",
    "Contexts",
    "contexts_file",
    "keep_key",
    "load",
    "reach_for",
    "remove",
    "save",
    "use_hint",
]

SERVER, KEY_FILE, CA_FILE = "HOSTLER_SERVER", "HOSTLER_KEY_FILE", "HOSTLER_CA_FILE"
PROJECT, CONTEXT = "HOSTLER_PROJECT", "HOSTLER_CONTEXT"

_KIND = "Contexts"
_NOWHERE_HINT = "hostler context set NAME --server URL --key-file FILE; or set HOSTLER_SERVER and HOSTLER_KEY_FILE"


class Context(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One control plane, as its user sees it."""

    server: str
    key_file: str = ""
    ca_file: str = ""
    project: str = DEFAULT_PROJECT
    insecure: bool = False


class Contexts(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"api_version": "apiVersion"}
):
    """All of them, and which one is meant when none is named."""

    api_version: str = API_VERSION
    kind: str = _KIND
    current: str = ""
    contexts: dict[str, Context] = {}

    def named(self, name: str) -> Context:
        """Return a context by its name; UnknownNameError."""
        if name not in self.contexts:
            hint = did_you_mean(name, list(self.contexts)) or "'hostler context list' shows them"
            raise UnknownNameError(f"there is no context {name!r}", hint=hint)
        return self.contexts[name]


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What was said on the command line; empty where nothing was."""

    context: str = ""
    server: str = ""
    key_file: str = ""
    ca_file: str = ""
    project: str = ""


def contexts_file() -> Path:
    """Return where contexts are kept."""
    return config_folder() / "contexts.yaml"


def load() -> Contexts:
    """Read the contexts; none where there is no file."""
    path = contexts_file()
    if not path.exists():
        return Contexts()
    documents = read_documents([str(path)])
    if not documents:
        return Contexts()
    found = convert(documents[0], documents[0].data, Contexts)
    if found.kind != _KIND:
        raise InputError(f"{path}: its kind is {found.kind!r}", hint=f"it must be {_KIND}; move the file away")
    return found


def save(contexts: Contexts) -> None:
    """Write the contexts, at once or not at all."""
    _write(contexts_file(), write_yaml(msgspec.to_builtins(contexts)))


def keep_key(name: str, key: str) -> Path:
    """Keep the key of a context in a file of its own, and return where."""
    check_word("the context's name", name)
    path = contexts_file().parent / "keys" / f"{name}.key"
    _write(path, f"{key}\n")
    return path


def remove(contexts: Contexts, name: str) -> Contexts:
    """Return the contexts without one of them; the key that was kept for it goes too."""
    gone = contexts.named(name)
    kept = contexts_file().parent / "keys" / f"{name}.key"
    if gone.key_file == str(kept):
        with suppress(FileNotFoundError):
            kept.unlink()
    rest = {key: context for key, context in contexts.contexts.items() if key != name}
    current = "" if contexts.current == name else contexts.current
    return msgspec.structs.replace(contexts, contexts=rest, current=current)


def use_hint(contexts: Contexts) -> str:
    """Say how to choose a context where there are some and none is the current one; else nothing."""
    if contexts.current or not contexts.contexts:
        return ""
    first, *more = contexts.contexts
    if not more:
        return f"'hostler context use {first}' chooses the one that there is"
    return f"'hostler context use NAME' chooses one: {', '.join((first, *more))}"


def reach_for(asked: Asked, environment: Mapping[str, str] = os.environ) -> Reach:
    """Return the control plane that is meant. A context's key is shown to that context's server and to no other.

    Whoever names a context on the command line means all of it: then the environment does not count.
    """
    contexts = load()
    if asked.context:
        environment = {}
    server = asked.server or environment.get(SERVER, "")
    name = asked.context or environment.get(CONTEXT, "") or ("" if server else contexts.current)
    context = contexts.named(name) if name else Context(server=server)
    if server and server.rstrip("/") != context.server.rstrip("/"):
        context = Context(server=server, project=context.project)
    if not context.server:
        raise InputError("no control plane is named", hint=use_hint(contexts) or _NOWHERE_HINT)
    key_file = asked.key_file or environment.get(KEY_FILE, "") or context.key_file
    ca_file = asked.ca_file or environment.get(CA_FILE, "") or context.ca_file
    if not key_file:
        raise InputError(f"there is no key for {context.server}", hint="give --key-file FILE, or set HOSTLER_KEY_FILE")
    return Reach(
        server=check_server(context.server, is_insecure=context.insecure),
        key=read_key(key_file),
        ca_file=Path(ca_file).expanduser() if ca_file else None,
        project=asked.project or environment.get(PROJECT, "") or context.project,
        is_insecure=context.insecure,
        context=name,
    )


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, made = tempfile.mkstemp(prefix=".new-", dir=path.parent)  # mode 0600
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(text)
            Path(made).replace(path)
        except BaseException:
            Path(made).unlink(missing_ok=True)
            raise
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        raise InputError(f"{path} cannot be written: {problem}", hint="check the folder and its permissions") from None
