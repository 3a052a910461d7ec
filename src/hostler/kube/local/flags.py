"""The command line of each part, from the state of a cluster; the same state always gives the same line.

So a part whose line differs from the one it was started with is restarted. A comment gives the reason of each flag that
is not obvious.
"""

from __future__ import annotations

from pathlib import Path

from hostler.kube.local.binaries import Binary
from hostler.kube.local.credentials import kubeconfig_path
from hostler.kube.local.state import PROGRAMS, LocalClusterState

__all__ = ["STAGES", "command_of"]

STAGES = Path(__file__).with_name("stages.yaml")

_HERE = "127.0.0.1"
_GANGS_SINCE = (1, 37)
_GANGS_GATE = "GenericWorkload"
_GANGS_API = "scheduling.k8s.io/v1beta1=true"


def command_of(part: str, folder: Path, state: LocalClusterState, binaries: dict[str, Binary]) -> list[str]:
    """Return the command line that starts a part."""
    binary = binaries[PROGRAMS[part]]
    flags = _FLAGS[part](folder, state, binary)
    return [str(binary.path), *flags]


def _etcd(folder: Path, state: LocalClusterState, binary: Binary) -> list[str]:
    client, peers = f"http://{_HERE}:{state.ports.etcd}", f"http://{_HERE}:{state.ports.etcd_peers}"
    return [
        "--name=local",
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=local={peers}",
        "--unsafe-no-fsync",  # a test cluster: data may be lost when the machine crashes
        "--log-level=warn",
        *state.etcd_flags,
    ]


def _apiserver(folder: Path, state: LocalClusterState, binary: Binary) -> list[str]:
    disabled = _disabled_admission(state)
    return [
        f"--etcd-servers=http://{_HERE}:{state.ports.etcd}",
        f"--secure-port={state.ports.apiserver}",
        f"--bind-address={_HERE}",
        f"--advertise-address={_HERE}",
        f"--cert-dir={folder}",
        *_certificate(folder),
        f"--client-ca-file={folder / 'ca.crt'}",
        f"--token-auth-file={folder / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={folder / 'accounts.key'}",
        f"--service-account-signing-key-file={folder / 'accounts.key'}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--endpoint-reconciler-type=none",  # a Service cannot point to the loopback interface
        "--allow-privileged",
        *([f"--disable-admission-plugins={','.join(disabled)}"] if disabled else []),
        *_gates(state, binary),
        *([f"--runtime-config={_GANGS_API}"] if _has_gangs(state, binary) else []),
        *state.api_flags,
    ]


def _disabled_admission(state: LocalClusterState) -> list[str]:
    """Return the admission plugins that would wait for a controller that does not run."""
    has_controllers = "controllers" in state.parts and not state.is_bare
    disabled = []
    if not has_controllers:
        disabled.append("ServiceAccount")  # no controller creates the account `default` of a namespace
    if not (has_controllers and "kwok" in state.parts):
        disabled.append("TaintNodesByCondition")  # no controller would remove the taint
    if state.is_bare:
        disabled.append("Priority")
    return disabled


def _controllers(folder: Path, state: LocalClusterState, binary: Binary) -> list[str]:
    # Without kubelets no node sends heartbeats, and this controller would mark all of them as lost.
    off = ["-node-ipam-controller", *(["-node-lifecycle-controller"] if "kwok" not in state.parts else [])]
    return [
        *_component(folder, state.ports.controllers, "controllers"),
        f"--kubeconfig={kubeconfig_path(folder, 'controllers')}",
        "--leader-elect=false",
        f"--controllers=*,{','.join(off)}",
        "--use-service-account-credentials",
        f"--service-account-private-key-file={folder / 'accounts.key'}",
        f"--root-ca-file={folder / 'ca.crt'}",
        f"--cluster-signing-cert-file={folder / 'ca.crt'}",
        f"--cluster-signing-key-file={folder / 'ca.key'}",
        *_gates(state, binary),
    ]


def _scheduler(folder: Path, state: LocalClusterState, binary: Binary) -> list[str]:
    path = kubeconfig_path(folder, "kube-scheduler")
    configured = [f"--config={folder / state.scheduler_config}"]
    plain = [f"--kubeconfig={path}", "--leader-elect=false"]
    return [
        *_component(folder, state.ports.scheduler, "kube-scheduler"),
        *(configured if state.scheduler_config else plain),
        *_gates(state, binary),
    ]


def _kwok(folder: Path, state: LocalClusterState, binary: Binary) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig_path(folder, 'kwok')}",
        "--manage-all-nodes=true",
        f"--config={STAGES}",
        f"--server-address={_HERE}:{state.ports.kwok}",
        "--node-lease-duration-seconds=40",
        "--node-ip=10.0.0.1",
        "--cidr=10.1.0.0/16",
    ]


def _component(folder: Path, port: int, user: str) -> list[str]:
    """Return how a component serves its probes and metrics, and where it checks access to the latter."""
    path = kubeconfig_path(folder, user)
    return [
        f"--secure-port={port}",
        f"--bind-address={_HERE}",
        *_certificate(folder),
        f"--authentication-kubeconfig={path}",
        f"--authorization-kubeconfig={path}",
    ]


def _certificate(folder: Path) -> list[str]:
    return [f"--tls-cert-file={folder / 'server.crt'}", f"--tls-private-key-file={folder / 'server.key'}"]


def _gates(state: LocalClusterState, binary: Binary) -> list[str]:
    gates = {_GANGS_GATE: True} if _has_gangs(state, binary) else {}
    gates |= state.feature_gates
    words = [f"{gate}={'true' if is_on else 'false'}" for gate, is_on in sorted(gates.items())]
    return [f"--feature-gates={','.join(words)}"] if words else []


def _has_gangs(state: LocalClusterState, binary: Binary) -> bool:
    """Return whether the built-in gang API is on: requested, known, and its gate not closed by hand."""
    return state.has_gangs_api and binary.version[:2] >= _GANGS_SINCE and state.feature_gates.get(_GANGS_GATE, True)


_FLAGS = {
    "etcd": _etcd,
    "apiserver": _apiserver,
    "controllers": _controllers,
    "scheduler": _scheduler,
    "kwok": _kwok,
}
