"""Shared GPUs in the form of the openb trace: the GPUs of a node, and the share of them that a pod requests.

A node lists ``alibabacloud.com/gpu-count`` (and ``gpu-milli``, 1000 for each) among its resources and has the model in
a label. A pod requests them by annotations only: the number of GPUs, the milli-units of each, the accepted models, and,
if it runs, the indices. Used by ``nodes`` and ``guests``; ``nvidia.com/gpu`` is an ordinary resource and not handled
here.
"""

from __future__ import annotations

from collections.abc import Mapping

from hostler.errors import InputError
from hostler.manifests.places import child
from hostler.model import WHOLE_DEVICE, Device, DeviceRequest, Guest, Host, parse_quantity
from hostler.model.hosts import MAX_DEVICES

__all__ = [
    "GPU_COUNT", "GPU_INDEX", "GPU_MILLI", "GPU_MODEL", "gpu_annotations", "gpu_indices", "gpu_request", "gpus_of_host",
    "gpus_of_node",
]  # fmt: skip

KIND = "gpu"
GPU_COUNT = "alibabacloud.com/gpu-count"
GPU_MILLI = "alibabacloud.com/gpu-milli"
GPU_MODEL = "alibabacloud.com/gpu-card-model"
GPU_INDEX = "alibabacloud.com/gpu-index"

_ANNOTATIONS = "metadata.annotations"


def gpus_of_node(resources: Mapping[str, int], labels: Mapping[str, str], path: str) -> tuple[Device, ...]:
    """Return the devices of a node, from its parsed resources and its labels."""
    milli = resources.get(GPU_MILLI)
    count = resources.get(GPU_COUNT, (milli or 0) // WHOLE_DEVICE)
    if milli is not None and milli != count * WHOLE_DEVICE:
        raise InputError(
            f"{child(path, GPU_MILLI)}: {milli} is not 1000 for each of {count} GPUs",
            hint=f"give {GPU_COUNT} and 1000 times as much {GPU_MILLI}",
        )
    if count > MAX_DEVICES:
        raise InputError(f"{child(path, GPU_COUNT)}: {count} GPUs are more than the {MAX_DEVICES} that a node may have")
    return (Device(KIND, labels.get(GPU_MODEL, "")),) * count


def gpus_of_host(host: Host) -> tuple[dict[str, str], dict[str, str]]:
    """Write a host's devices as resources and labels of a node; reject what a node cannot express."""
    if not host.devices:
        return {}, {}
    first = host.devices[0]
    model = dict(host.labels).get(GPU_MODEL, first.model)
    if any(device != Device(KIND, model) for device in host.devices):
        raise InputError(
            f"host {host.name!r}: its devices cannot be written as a Node",
            hint=f"a Node has whole GPUs of one model, named by the label {GPU_MODEL}",
        )
    count = len(host.devices)
    resources = {GPU_COUNT: str(count), GPU_MILLI: str(count * WHOLE_DEVICE)}
    return resources, {GPU_MODEL: model} if model else {}


def gpu_request(annotations: Mapping[str, str]) -> tuple[DeviceRequest, ...]:
    """Read a pod's GPU request; a count alone means whole GPUs, milli alone means one GPU."""
    milli = _number(annotations, GPU_MILLI)
    count = _number(annotations, GPU_COUNT)
    if milli == 0 or count == 0 or (milli is None and count is None):
        return ()
    milli = WHOLE_DEVICE if milli is None else milli
    count = 1 if count is None else count
    if milli > WHOLE_DEVICE:
        raise InputError(
            f"{child(_ANNOTATIONS, GPU_MILLI)}: {milli} is more than {WHOLE_DEVICE}, one whole GPU",
            hint=f"ask for several GPUs by {GPU_COUNT}",
        )
    if count > MAX_DEVICES:
        raise InputError(f"{child(_ANNOTATIONS, GPU_COUNT)}: {count} GPUs are more than the {MAX_DEVICES} of any node")
    models = tuple(model for model in annotations.get(GPU_MODEL, "").split("|") if model)
    return (DeviceRequest(KIND, count, milli, models),)


def gpu_indices(annotations: Mapping[str, str], request: tuple[DeviceRequest, ...]) -> tuple[int, ...]:
    """Read the indices of a running pod's GPUs; none if the annotation is absent."""
    text = annotations.get(GPU_INDEX, "")
    if not text:
        return ()
    path = child(_ANNOTATIONS, GPU_INDEX)
    parts = text.split("-")
    if not all(part.isascii() and part.isdecimal() and len(part) <= 4 for part in parts):
        raise InputError(f"{path}: {text!r} is not a list of indices", hint='write it as "2" or "2-3-4"')
    indices = tuple(int(part) for part in parts)
    wanted = sum(item.count for item in request)
    if len(indices) != wanted or len(set(indices)) != wanted:
        raise InputError(f"{path}: {text!r} does not name {wanted} different GPUs, the number that the pod asks for")
    return indices


def gpu_annotations(guest: Guest) -> dict[str, str]:
    """Write a guest's GPU request as annotations; reject devices that Kubernetes cannot express."""
    request = guest.spec.devices
    if not request:
        return {}
    if len(request) > 1 or request[0].kind != KIND or any("|" in model for model in request[0].models):
        raise InputError(
            f"guest {guest.name!r}: its devices cannot be written as a Pod",
            hint="a Pod has one request for devices, of kind gpu",
        )
    gpu = request[0]
    annotations = {GPU_MILLI: str(gpu.milli), GPU_COUNT: str(gpu.count)}
    if gpu.models:
        annotations[GPU_MODEL] = "|".join(gpu.models)
    if guest.host and guest.on_devices:
        annotations[GPU_INDEX] = "-".join(str(index) for index in guest.on_devices)
    return annotations


def _number(annotations: Mapping[str, str], name: str) -> int | None:
    if name not in annotations:
        return None
    try:
        return parse_quantity(annotations[name])
    except InputError as error:
        raise type(error)(f"{child(_ANNOTATIONS, name)}: {error.message}", hint=error.hint) from error
