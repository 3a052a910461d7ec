"""One kubeconfig for each user of a local cluster, with the authority inside: nothing is trusted unseen."""

from __future__ import annotations

import base64
from pathlib import Path

from hostler.config import did_you_mean, write_yaml
from hostler.errors import UnknownNameError
from hostler.kube.local.credentials import CERTIFICATE_USER, USERS, token_of
from hostler.kube.local.state import write_private

__all__ = ["kubeconfig_path", "write_kubeconfigs"]


def kubeconfig_path(folder: Path, user: str) -> Path:
    """Return the kubeconfig of a user; the administrator's has the plain name."""
    known = [*USERS, CERTIFICATE_USER]
    if user not in known:
        raise UnknownNameError(
            f"no user of a local cluster is called {user!r}",
            hint=did_you_mean(user, known),
        )
    return folder / ("kubeconfig" if user == "admin" else f"kubeconfig-{user}")


def write_kubeconfigs(folder: Path, name: str, url: str) -> None:
    """Write the kubeconfig of every user."""
    for user in (*USERS, CERTIFICATE_USER):
        if user == CERTIFICATE_USER:
            proof = {
                "client-certificate-data": _encoded(folder / "client.crt"),
                "client-key-data": _encoded(folder / "client.key"),
            }
        else:
            proof = {"token": token_of(folder, user)}
        cluster = {"server": url, "certificate-authority-data": _encoded(folder / "ca.crt")}
        context = f"hostler-{name}"
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": context, "cluster": cluster}],
            "users": [{"name": user, "user": proof}],
            "contexts": [{"name": context, "context": {"cluster": context, "user": user}}],
            "current-context": context,
        }
        write_private(kubeconfig_path(folder, user), write_yaml(content).encode())


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
