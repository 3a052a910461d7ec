"""Read the settings of a scheduler from a path or a document, or use the defaults."""

from __future__ import annotations

import msgspec

from hostler.config import Document, invalid, quote, read_documents
from hostler.engine import find_policy
from hostler.errors import InputError
from hostler.kube.configuration.component import COMPONENT_GROUP, read_component
from hostler.kube.configuration.scheduler_settings import KIND, read_own
from hostler.kube.settings import DEFAULT_SCHEDULER_NAME, SchedulerProfile, SchedulerSettings
from hostler.model import PreemptionRules

__all__ = ["default_settings", "is_scheduler_file", "read_document", "read_settings"]

DEFAULT_POLICY = "kubernetes"


def read_settings(path: str, *, lenient: bool = False) -> SchedulerSettings:
    """Read a file of kind ``Scheduler`` or a KubeSchedulerConfiguration; the kind tells them apart.

    Settings that would change placements are rejected; with ``lenient`` they become notes.
    """
    documents = read_documents([path])
    if len(documents) != 1:
        raise InputError(f"{path}: it has {len(documents)} documents", hint="a configuration has one")
    return read_document(documents[0], lenient=lenient)


def read_document(document: Document, *, lenient: bool = False) -> SchedulerSettings:
    """Read one document."""
    if _group(document) == COMPONENT_GROUP:
        return read_component(document, lenient=lenient)
    kind = document.data.get("kind") if isinstance(document.data, dict) else None
    if _group(document) not in ("", "hostler") and isinstance(kind, str) and kind != KIND:
        raise invalid(
            document,
            ("kind",),
            f"is {quote(kind)}, not '{KIND}' or 'KubeSchedulerConfiguration'",
            hint="this file configures a scheduler; create pods and workloads on the cluster",
        )
    return read_own(document, lenient=lenient)


def is_scheduler_file(document: Document) -> bool:
    """Return whether a document configures a scheduler, in either format."""
    data = document.data
    is_ours = isinstance(data, dict) and data.get("kind") == KIND and _group(document) == "hostler"
    return is_ours or _group(document) == COMPONENT_GROUP


def default_settings(scheduler_name: str = DEFAULT_SCHEDULER_NAME, policy: str = DEFAULT_POLICY) -> SchedulerSettings:
    """Return the settings without a file: one profile with a built-in policy, and preemption on."""
    found = find_policy(policy)
    return SchedulerSettings(
        profiles=(SchedulerProfile(scheduler_name, found.name),),
        policies=(msgspec.structs.replace(found, preemption=found.preemption or PreemptionRules()),),
    )


def _group(document: Document) -> str:
    version = document.data.get("apiVersion") if isinstance(document.data, dict) else None
    return version.partition("/")[0] if isinstance(version, str) else ""
