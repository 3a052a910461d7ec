"""How to reach an API server: from a kubeconfig, or from inside a pod.

The order is that of kubectl: the named file, the files in KUBECONFIG, ``~/.kube/config``, then the service account of
the pod. Unsupported settings are rejected with a reason instead of failing later. Used by ``http`` and by commands that
show where they would connect.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from hostler.config.key_paths import quote
from hostler.errors import HostlerError, InputError
from hostler.kube.api.credentials import (
    ClientIdentity,
    Credential,
    ExecPlugin,
    FileCredential,
    FixedCredential,
    TokenFile,
    read_token,
)
from hostler.kube.api.kubeconfig import ContextFiles, KubeconfigCluster, KubeconfigUser
from hostler.kube.api.tls import load_certificate, make_tls, read_pem

__all__ = ["Access", "read_access"]

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


class Access(msgspec.Struct, kw_only=True):
    """The address of a server, how it must identify itself, and our own credentials."""

    server: str  # https://host:port, perhaps with a path; no slash at the end
    credential: Credential
    authority: bytes = b""  # PEM; empty: the system's
    read_authority: Callable[[], bytes] | None = None  # reads it again if it is in a file: it may change
    is_insecure: bool = False
    server_name: str = ""  # the name in its certificate; empty: the host of ``server``
    namespace: str = "default"
    source: str = ""
    notes: tuple[str, ...] = ()  # notes for the user

    def __repr__(self) -> str:
        return f"Access({self.server!r}, source={self.source!r}, credential={type(self.credential).__name__})"


def read_access(
    kubeconfig: Path | None = None,
    context: str = "",
    *,
    environment: Mapping[str, str] = os.environ,
    home: Path | None = None,
    service_account: Path = SERVICE_ACCOUNT,
) -> Access:
    """Find out how to reach the API server."""
    paths = _kubeconfig_paths(kubeconfig, environment, home)
    if paths:
        return _access_of(ContextFiles(paths, context), ", ".join(map(str, paths)))
    if environment.get("KUBERNETES_SERVICE_HOST") and (service_account / "token").exists():
        return _access_in_pod(environment, service_account)
    raise InputError(
        "there is no kubeconfig",
        hint="name one with --kubeconfig or KUBECONFIG, or start a cluster with 'hostler kube up'",
    )


def _kubeconfig_paths(kubeconfig: Path | None, environment: Mapping[str, str], home: Path | None) -> list[Path]:
    if kubeconfig is not None:
        return [kubeconfig]
    named = [Path(word) for word in environment.get("KUBECONFIG", "").split(os.pathsep) if word]
    existing = [path for path in named if path.exists()]
    if named:
        # Some may be missing, as with kubectl; if all are, reading the first one reports it.
        return existing or named[:1]
    default = (home or Path.home()) / ".kube" / "config"
    return [default] if default.exists() else []


def _access_in_pod(environment: Mapping[str, str], folder: Path) -> Access:
    host, port = environment["KUBERNETES_SERVICE_HOST"], environment.get("KUBERNETES_SERVICE_PORT", "443")
    namespace = folder / "namespace"

    def read_authority() -> bytes:
        return read_pem("", "ca.crt", str(folder), "the service account's ca.crt")

    return Access(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        credential=TokenFile(folder / "token"),
        authority=read_authority(),
        read_authority=read_authority,
        namespace=namespace.read_text("utf-8").strip() if namespace.exists() else "default",
        source="the service account of this pod",
    )


def _access_of(files: ContextFiles, source: str) -> Access:
    choice = files.first
    cluster, where = choice.cluster, f"{source}: context {quote(choice.context)}"
    try:
        server = _checked_server(cluster)
        authority = _authority_of(cluster)
        credential = _credential_of(files, server)
        # Checked now and not at the first call: an unusable certificate is an error of the file.
        make_tls(authority, credential.identity, is_insecure=cluster.insecure_skip_tls_verify)
    except HostlerError as error:
        raise InputError(f"{where}: {error.message}", hint=error.hint) from None
    note = f"{server}: the server's certificate is not verified (insecure-skip-tls-verify)"
    return Access(
        server=server,
        credential=credential,
        authority=authority,
        read_authority=(lambda: _authority_of(files.read().cluster)) if authority else None,
        is_insecure=cluster.insecure_skip_tls_verify,
        server_name=cluster.tls_server_name,
        namespace=choice.namespace,
        source=where,
        notes=(note,) if cluster.insecure_skip_tls_verify else (),
    )


def _checked_server(cluster: KubeconfigCluster) -> str:
    if cluster.proxy_url:
        raise InputError("proxy-url is not supported", hint="reach the server directly, or through a tunnel")
    server = cluster.server.rstrip("/")
    try:
        parts = urlsplit(server)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        is_good = is_good and not (parts.query or parts.fragment or parts.username or parts.password)
    except ValueError:
        is_good = False
    if not is_good:
        raise InputError("the cluster's server is not a valid address", hint="it looks like https://HOST:6443")
    return server


def _authority_of(cluster: KubeconfigCluster) -> bytes:
    return read_pem(
        cluster.certificate_authority_data, cluster.certificate_authority, cluster.folder, "certificate-authority"
    )


def _credential_of(files: ContextFiles, server: str) -> Credential:
    user, cluster = files.first.user, files.first.cluster
    if why := _why_not(user):
        raise InputError(why, hint="use a token, a client certificate or an exec plugin")
    identity = _identity_of(user)
    if user.exec is not None:
        return ExecPlugin(user.exec, Path(user.folder), _cluster_info(cluster, server))
    if not (identity.token or identity.certificate):
        return FixedCredential(identity)
    return FileCredential(lambda: _identity_again(files.read().user))


def _identity_again(user: KubeconfigUser) -> ClientIdentity:
    """Read a user's credentials from a file that has changed; it must still be a user of the same kind."""
    if user.exec is not None or _why_not(user):
        raise InputError("the user has another kind of credentials now", hint="restart to use them")
    identity = _identity_of(user)
    if not (identity.token or identity.certificate):
        raise InputError("the user has no credentials any more", hint="is the file being written?")
    return identity


def _identity_of(user: KubeconfigUser) -> ClientIdentity:
    """Read a user's credentials. Certificate and key must match, also while their files are being replaced."""
    certificate = read_pem(user.client_certificate_data, user.client_certificate, user.folder, "client-certificate")
    key = read_pem(user.client_key_data, user.client_key, user.folder, "client-key")
    if bool(certificate) != bool(key):
        raise InputError("a client certificate needs its key, and one of the two is missing", hint="check the user")
    token = user.token.strip()
    if user.token_file and user.exec is None:
        token = read_token(Path(user.folder) / user.token_file)
    identity = ClientIdentity(token=token, certificate=certificate, key=key)
    if certificate:
        load_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), identity)
    return identity


def _why_not(user: KubeconfigUser) -> str:
    if user.username or user.password:
        return "user name and password are not supported: Kubernetes removed them in 1.19"
    if user.auth_provider is not None:
        return "auth-provider is not supported: it was removed from Kubernetes in 1.26"
    if user.impersonate:
        return "impersonation ('as') is not supported"
    if user.exec is None:
        return ""
    if user.exec.api_version not in _EXEC_VERSIONS:
        return f"the exec plugin needs {quote(user.exec.api_version)}, which is not one of {', '.join(_EXEC_VERSIONS)}"
    if user.exec.interactive_mode == "Always":
        return "the exec plugin needs a terminal (interactiveMode: Always), and there is none"
    return ""


def _cluster_info(cluster: KubeconfigCluster, server: str) -> dict[str, object]:
    """Return what a credential plugin receives about the cluster if it asks for it."""
    # Bytes are written as base64.
    info: dict[str, object] = {"server": server, "certificate-authority-data": _authority_of(cluster)}
    if cluster.tls_server_name:
        info["tls-server-name"] = cluster.tls_server_name
    if cluster.insecure_skip_tls_verify:
        info["insecure-skip-tls-verify"] = True
    return info
