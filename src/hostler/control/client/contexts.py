"""Contexts: named control planes, each with its key and project. One of them is the current one.

They are in ``contexts.yaml`` of the user's configuration folder; keys are in separate files beside it. Only the owner
can read them. The command line overrides the environment, and the environment overrides the file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from hostler.config import API_VERSION, config_folder, convert, did_you_mean, read_documents, write_yaml
from hostler.control.client.server_target import DEFAULT_PROJECT, ServerTarget, check_server, read_key
from hostler.control.vms.spec import check_word
from hostler.errors import InputError, UnknownNameError
from hostler.runtime.files import write_private

__all__ = [
    "ClientContext",
    "Contexts",
    "TargetOptions",
    "contexts_file",
    "keep_key",
    "load",
    "remove",
    "resolve_target",
    "save",
    "use_hint",
]  # fmt: skip

SERVER, KEY_FILE, CA_FILE = "HOSTLER_SERVER", "HOSTLER_KEY_FILE", "HOSTLER_CA_FILE"
PROJECT, CONTEXT = "HOSTLER_PROJECT", "HOSTLER_CONTEXT"

_KIND = "Contexts"
_NOWHERE_HINT = "hostler context set NAME --server URL --key-file FILE; or set HOSTLER_SERVER and HOSTLER_KEY_FILE"


class ClientContext(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One control plane: its address, key file and project."""

    server: str
    key_file: str = ""
    ca_file: str = ""
    project: str = DEFAULT_PROJECT
    insecure: bool = False


class Contexts(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"api_version": "apiVersion"}
):
    """All contexts, and the current one."""

    api_version: str = API_VERSION
    kind: str = _KIND
    current: str = ""
    contexts: dict[str, ClientContext] = {}

    def find(self, name: str) -> ClientContext:
        """Return a context by its name; UnknownNameError."""
        if name not in self.contexts:
            hint = did_you_mean(name, list(self.contexts)) or "'hostler context list' shows them"
            raise UnknownNameError(f"there is no context {name!r}", hint=hint)
        return self.contexts[name]


class TargetOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the command line that choose a control plane; empty if not given."""

    context: str = ""
    server: str = ""
    key_file: str = ""
    ca_file: str = ""
    project: str = ""


def contexts_file() -> Path:
    """Return the path of the file with the contexts."""
    return config_folder() / "contexts.yaml"


def load() -> Contexts:
    """Read the contexts; none if there is no file."""
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
    """Write the contexts atomically."""
    _write(contexts_file(), write_yaml(msgspec.to_builtins(contexts)))


def keep_key(name: str, key: str) -> Path:
    """Write the key of a context to its own file, and return the path."""
    check_word("the context's name", name)
    path = contexts_file().parent / "keys" / f"{name}.key"
    _write(path, f"{key}\n")
    return path


def remove(contexts: Contexts, name: str) -> Contexts:
    """Return the contexts without one of them, and delete its stored key."""
    gone = contexts.find(name)
    kept = contexts_file().parent / "keys" / f"{name}.key"
    if gone.key_file == str(kept):
        with suppress(FileNotFoundError):
            kept.unlink()
    rest = {key: context for key, context in contexts.contexts.items() if key != name}
    current = "" if contexts.current == name else contexts.current
    return msgspec.structs.replace(contexts, contexts=rest, current=current)


def use_hint(contexts: Contexts) -> str:
    """Return how to choose a context if there are some and none is current; else empty."""
    if contexts.current or not contexts.contexts:
        return ""
    first, *more = contexts.contexts
    if not more:
        return f"'hostler context use {first}' chooses the only one"
    return f"'hostler context use NAME' chooses one: {', '.join((first, *more))}"


def resolve_target(asked: TargetOptions, environment: Mapping[str, str] = os.environ) -> ServerTarget:
    """Return the control plane to use. A context's key is sent to that context's server only.

    A context that is named on the command line is used as a whole: then the environment is ignored.
    """
    contexts = load()
    if asked.context:
        environment = {}
    server = asked.server or environment.get(SERVER, "")
    name = asked.context or environment.get(CONTEXT, "") or ("" if server else contexts.current)
    context = contexts.find(name) if name else ClientContext(server=server)
    if server and server.rstrip("/") != context.server.rstrip("/"):
        context = ClientContext(server=server, project=context.project)
    if not context.server:
        raise InputError("no control plane is named", hint=use_hint(contexts) or _NOWHERE_HINT)
    key_file = asked.key_file or environment.get(KEY_FILE, "") or context.key_file
    ca_file = asked.ca_file or environment.get(CA_FILE, "") or context.ca_file
    if not key_file:
        raise InputError(f"there is no key for {context.server}", hint="give --key-file FILE, or set HOSTLER_KEY_FILE")
    return ServerTarget(
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
        write_private(path, text.encode(), part=path.with_name(f".new-{os.getpid()}"))
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        raise InputError(f"{path} cannot be written: {problem}", hint="check the folder and its permissions") from None
