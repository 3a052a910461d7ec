"""Read kubeconfig files, merge them as kubectl does, and choose one context.

If several files define an entry, the first one counts. Paths in a file are relative to its folder. Errors show names
only, never other contents of these files. Used by ``access``.

``ContextFiles`` reads the files again when one of them changed, for processes that run for longer than a certificate is
valid. It keeps the context that was chosen first, and its server: another current context does not move a process to
another cluster, and credentials of one cluster are never sent to another.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from hostler.config.documents import parse_documents
from hostler.config.key_paths import did_you_mean, quote
from hostler.errors import InputError

__all__ = [
    "ChosenContext",
    "ContextFiles",
    "ExecSettings",
    "Kubeconfig",
    "KubeconfigCluster",
    "KubeconfigUser",
    "choose",
    "read_kubeconfig",
]


class KubeconfigPart(msgspec.Struct, frozen=True, rename="kebab"):
    """Base of all parts of a kubeconfig. Unknown fields are skipped. It holds secrets."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(…)"


class KubeconfigCluster(KubeconfigPart, frozen=True, rename="kebab"):
    """The address of a server and how it identifies itself."""

    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    folder: str = ""  # the folder of its file


class EnvironmentEntry(KubeconfigPart, frozen=True):
    """A variable for a credential plugin."""

    name: str
    value: str = ""


class ExecSettings(KubeconfigPart, frozen=True, rename="camel"):
    """A program that prints credentials."""

    command: str
    api_version: str = ""
    args: tuple[str, ...] | None = None
    env: tuple[EnvironmentEntry, ...] | None = None
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class KubeconfigUser(KubeconfigPart, frozen=True, rename="kebab"):
    """The credentials of a user."""

    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    auth_provider: object = None
    impersonate: str = msgspec.field(default="", name="as")
    exec: ExecSettings | None = None
    folder: str = ""


class KubeconfigContext(KubeconfigPart, frozen=True):
    """A cluster, a user and a namespace."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""


class NamedCluster(KubeconfigPart, frozen=True):
    """An entry of the list of clusters."""

    name: str
    cluster: KubeconfigCluster | None = None


class NamedUser(KubeconfigPart, frozen=True):
    """An entry of the list of users."""

    name: str
    user: KubeconfigUser | None = None


class NamedContext(KubeconfigPart, frozen=True):
    """An entry of the list of contexts."""

    name: str
    context: KubeconfigContext | None = None


class _File(KubeconfigPart, frozen=True, rename="kebab"):
    current_context: str = ""
    clusters: tuple[NamedCluster, ...] | None = None
    users: tuple[NamedUser, ...] | None = None
    contexts: tuple[NamedContext, ...] | None = None


class Kubeconfig(KubeconfigPart, frozen=True):
    """All files together."""

    source: str  # the names of the files, for errors
    current_context: str
    clusters: dict[str, KubeconfigCluster]
    users: dict[str, KubeconfigUser]
    contexts: dict[str, KubeconfigContext]


class ChosenContext(KubeconfigPart, frozen=True):
    """The cluster, user and namespace that a context names."""

    context: str
    cluster: KubeconfigCluster
    user: KubeconfigUser
    namespace: str


def read_kubeconfig(paths: Sequence[Path]) -> Kubeconfig:
    """Read and merge files. The first file that defines an entry counts."""
    config = Kubeconfig(", ".join(map(str, paths)), "", {}, {}, {})
    for path in paths:
        file, folder = _read_file(path), str(path.absolute().parent)
        for cluster in file.clusters or ():
            if cluster.cluster is not None:
                config.clusters.setdefault(cluster.name, msgspec.structs.replace(cluster.cluster, folder=folder))
        for user in file.users or ():
            entry = msgspec.structs.replace(user.user or KubeconfigUser(), folder=folder)
            config.users.setdefault(user.name, entry)
        for context in file.contexts or ():
            if context.context is not None:
                config.contexts.setdefault(context.name, context.context)
        if not config.current_context:
            config = msgspec.structs.replace(config, current_context=file.current_context)
    return config


class ContextFiles:
    """One context of some files; ``first`` is what they said at the start."""

    def __init__(self, paths: Sequence[Path], name: str = "") -> None:
        self._paths = tuple(paths)
        self._versions = self._look()
        self.first = self._last = choose(read_kubeconfig(self._paths), name)

    def read(self) -> ChosenContext:
        """Return the context as the files have it now; InputError if they lack it or name another server."""
        versions = self._look()
        if versions != self._versions:
            found = choose(read_kubeconfig(self._paths), self.first.context)
            if found.cluster.server != self.first.cluster.server:
                raise InputError(
                    f"context {quote(found.context)} now names another server", hint="restart to follow it"
                )
            self._last, self._versions = found, versions
        return self._last

    def _look(self) -> list[tuple[int, int, int] | None]:
        """Return what changes whenever a file is written or replaced; None for a file that is missing."""
        found: list[tuple[int, int, int] | None] = []
        for path in self._paths:
            try:
                state = path.stat()
            except OSError:
                found.append(None)
            else:
                found.append((state.st_ino, state.st_size, state.st_mtime_ns))
        return found


def choose(config: Kubeconfig, name: str = "") -> ChosenContext:
    """Choose a context: the current one, unless another is named."""
    name = name or config.current_context
    if not name and len(config.contexts) == 1:
        name = next(iter(config.contexts))
    if not name:
        hint = "name one with --context, or run 'kubectl config use-context NAME'"
        raise InputError(f"{config.source}: no current context is set", hint=hint)
    context = _find(config.contexts, name, "context", config.source)
    cluster = _find(config.clusters, context.cluster, "cluster", f"{config.source}: context {quote(name)}")
    # A context without a user has no credentials.
    user = (
        _find(config.users, context.user, "user", f"{config.source}: context {quote(name)}")
        if context.user
        else KubeconfigUser()
    )
    return ChosenContext(name, cluster, user, context.namespace or "default")


Entry = TypeVar("Entry")


def _find(entries: dict[str, Entry], name: str, kind: str, where: str) -> Entry:
    if name in entries:
        return entries[name]
    hint = did_you_mean(name, entries) or f"the kubeconfig has no {kind}s"
    raise InputError(f"{where}: there is no {kind} {quote(name)}", hint=hint)


def _read_file(path: Path) -> _File:
    try:
        content = path.read_bytes()
    except OSError as error:
        hint = "check --kubeconfig and the variable KUBECONFIG"
        raise InputError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}", hint=hint) from None
    if not content.strip():
        return _File()
    data = parse_documents(content, str(path))[0].data
    try:
        return msgspec.convert(data, _File)
    except msgspec.ValidationError as error:
        # msgspec names the path and the types of values, never a value.
        raise InputError(f"{path}: {error}", hint="is this a kubeconfig?") from None
