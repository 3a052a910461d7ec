"""What the containers of a pod take from a node beside amounts: ports of the host, and images.

Ports count of containers and of sidecars (init containers that always restart), images of all containers.
A pod on the network of its node takes each of its ports there, as the API server fills in. Used by
``pods``; ``container_writing`` is the way back.
"""

from __future__ import annotations

from collections.abc import Iterator

from hostler.errors import InputError
from hostler.manifests.objects import Container, ContainerPort, Pod
from hostler.model import HostPort

__all__ = ["host_ports", "image_names"]

_EVERYWHERE = "0.0.0.0"
_LAST_PORT = 65535


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    """Collect the ports of the host that a pod takes."""
    found: dict[HostPort, None] = {}
    for path, container in _running(pod):
        for at, port in enumerate(container.ports):
            taken = _host_port(port, f"{path}.ports[{at}]", on_host=pod.spec.host_network)
            if taken is not None:
                found[taken] = None
    return tuple(found)


def image_names(pod: Pod) -> tuple[str, ...]:
    """Name the image of each container, then of each init container, as nodes name what they have."""
    everyone = (*pod.spec.containers, *pod.spec.init_containers)
    return tuple(_with_tag(container.image) for container in everyone if container.image)


def _running(pod: Pod) -> Iterator[tuple[str, Container]]:
    for at, container in enumerate(pod.spec.containers):
        yield f"spec.containers[{at}]", container
    for at, container in enumerate(pod.spec.init_containers):
        if container.restart_policy == "Always":
            yield f"spec.initContainers[{at}]", container


def _host_port(port: ContainerPort, path: str, *, on_host: bool) -> HostPort | None:
    number, field = port.host_port, "hostPort"
    if not number and on_host:
        number, field = port.container_port, "containerPort"
    if not number:
        return None
    if not 1 <= number <= _LAST_PORT:
        raise InputError(f"{path}.{field}: {number} is not between 1 and {_LAST_PORT}")
    address = "" if port.host_ip == _EVERYWHERE else port.host_ip
    match port.protocol:
        case "":
            return HostPort(number, "TCP", address)
        case "TCP" | "UDP" | "SCTP":
            return HostPort(number, port.protocol, address)
    raise InputError(f"{path}.protocol: {port.protocol!r} is not a protocol", hint="protocols: TCP, UDP, SCTP")


def _with_tag(image: str) -> str:
    """Name the tag that is meant when there is neither tag nor digest; a colon before a slash belongs to a port."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
