"""What containers take from a node beside amounts: ports of the host, and images."""

import pytest

from hostler.errors import InputError
from hostler.model import HostPort
from tests.manifests.samples import guest_of, host_of, node, pod


def with_ports(*ports, **fields):
    return {"name": "c", "image": "img", "ports": list(ports), **fields}


PORTS = {
    "a port of the container alone": ({"containers": [with_ports({"containerPort": 80})]}, ()),
    "a port of the host": (
        {"containers": [with_ports({"containerPort": 80, "hostPort": 8080})]},
        (HostPort(8080),),
    ),
    "protocol and address": (
        {"containers": [with_ports({"containerPort": 53, "hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"})]},
        (HostPort(53, "UDP", "10.0.0.1"),),
    ),
    "the address of all addresses": (
        {"containers": [with_ports({"hostPort": 53, "hostIP": "0.0.0.0"})]},
        (HostPort(53),),
    ),
    "all containers, then sidecars, each port once": (
        {
            "containers": [with_ports({"hostPort": 1}), with_ports({"hostPort": 2, "protocol": "SCTP"})],
            "initContainers": [with_ports({"hostPort": 3}, {"hostPort": 1}, restartPolicy="Always")],
        },
        (HostPort(1), HostPort(2, "SCTP"), HostPort(3)),
    ),
    "an init container that ends takes none": (
        {"containers": [with_ports()], "initContainers": [with_ports({"hostPort": 3})]},
        (),
    ),
    "on the network of the host every port is the host's": (
        {"hostNetwork": True, "containers": [with_ports({"containerPort": 80}, {"containerPort": 81, "hostPort": 81})]},
        (HostPort(80), HostPort(81)),
    ),
    "on the network of the host without ports": ({"hostNetwork": True, "containers": [with_ports()]}, ()),
}


@pytest.mark.parametrize(("fields", "expected"), PORTS.values(), ids=PORTS.keys())
def test_of_ports(fields, expected):
    assert guest_of(pod(**fields)).spec.ports == expected


BROKEN_PORTS = {
    "too high": ({"hostPort": 65536}, "hostPort: 65536 is not between 1 and 65535"),
    "negative": ({"hostPort": -1}, "hostPort: -1 is not between 1 and 65535"),
    "text": ({"hostPort": "http"}, "hostPort: expected int, got str"),
    "an unknown protocol": ({"hostPort": 1, "protocol": "ICMP"}, "protocol: 'ICMP' is not a protocol"),
    "an address that is a number": ({"hostPort": 1, "hostIP": 10}, "hostIP: expected str, got int"),
}


@pytest.mark.parametrize(("port", "message"), BROKEN_PORTS.values(), ids=BROKEN_PORTS.keys())
def test_a_malformed_port_is_refused_with_pod_and_path(port, message):
    with pytest.raises(InputError) as caught:
        guest_of(pod("a", containers=[with_ports(), with_ports({"containerPort": 1}, port)]))
    assert caught.value.message == f"pod default/a: spec.containers[1].ports[1].{message}"


def test_malformed_host_network_port_is_named_by_its_field():
    with pytest.raises(InputError, match=r"spec\.initContainers\[0\]\.ports\[0\]\.containerPort: 70000 is not"):
        guest_of(pod(hostNetwork=True, initContainers=[with_ports({"containerPort": 70000}, restartPolicy="Always")]))


IMAGES = {
    "nothing but a name": ("nginx", "nginx:latest"),
    "a tag": ("nginx:1.27", "nginx:1.27"),
    "a registry": ("registry.k8s.io/pause", "registry.k8s.io/pause:latest"),
    "a registry with a port": ("localhost:5000/web", "localhost:5000/web:latest"),
    "a registry with a port, and a tag": ("localhost:5000/web:2", "localhost:5000/web:2"),
    "a digest": ("reg/web@sha256:abc", "reg/web@sha256:abc"),
}


@pytest.mark.parametrize(("image", "expected"), IMAGES.values(), ids=IMAGES.keys())
def test_an_image_is_named_as_nodes_name_it(image, expected):
    assert guest_of(pod(containers=[{"name": "c", "image": image}])).spec.images == (expected,)


def test_every_container_counts_and_every_init_container():
    data = pod(
        containers=[{"image": "a"}, {"image": "b:1"}, {"image": "a"}, {"name": "without"}],
        initContainers=[{"image": "c"}, {"image": "d:2", "restartPolicy": "Always"}],
    )
    assert guest_of(data).spec.images == ("a:latest", "b:1", "a:latest", "c:latest", "d:2")


# --------------------------------------------------------------------------------------- images of nodes


def node_with(*images):
    data = node("n1")
    data["status"]["images"] = list(images)
    return data


def test_a_node_has_its_images_under_all_their_names():
    host = host_of(
        node_with(
            {"names": ["reg/web@sha256:abc", "reg/web:1"], "sizeBytes": 500},
            {"names": ["reg/db:2"], "sizeBytes": 70},
            {"names": None, "sizeBytes": 9},
            {"sizeBytes": 9},
        )
    )
    assert host.images == (("reg/db:2", 70), ("reg/web:1", 500), ("reg/web@sha256:abc", 500))


def test_of_a_name_that_stands_twice_the_first_size_counts():
    assert host_of(node_with({"names": ["a:1"], "sizeBytes": 1}, {"names": ["a:1"], "sizeBytes": 2})).images == (
        ("a:1", 1),
    )


BROKEN_IMAGES = {
    "a negative size": ({"sizeBytes": -1}, "status.images[1].sizeBytes: -1 is not between 0 and 2^62"),
    "an enormous size": ({"sizeBytes": 2**63}, f"status.images[1].sizeBytes: {2**63} is not between 0 and 2^62"),
    "a size that is text": ({"sizeBytes": "1Gi"}, "status.images[1].sizeBytes: expected int, got str"),
    "one name that is no list": ({"names": "web:1"}, "status.images[1].names: expected array | null, got str"),
}


@pytest.mark.parametrize(("image", "message"), BROKEN_IMAGES.values(), ids=BROKEN_IMAGES.keys())
def test_a_malformed_image_is_refused_with_node_and_path(image, message):
    with pytest.raises(InputError) as caught:
        host_of(node_with({"names": ["a"], "sizeBytes": 1}, image))
    assert caught.value.message == f"node n1: {message}"
