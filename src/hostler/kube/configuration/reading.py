"""From a path, a document or nothing at all to the settings of a scheduler."""

from __future__ import annotations

import msgspec

from hostler.config import Document, invalid, quote, read_documents
from hostler.engine import find_policy
from hostler.errors import InputError
from hostler.kube.configuration.component import COMPONENT_GROUP, read_component
from hostler.kube.configuration.own import KIND, read_own
from hostler.kube.settings import DEFAULT_SCHEDULER_NAME, Profile, SchedulerSettings
from hostler.model import PreemptionRules

__all__ = ["default_settings", "is_scheduler_file", "read_document", "read_settings"]

DEFAULT_POLICY = "kubernetes"


def read_settings(path: str, *, lenient: bool = False) -> SchedulerSettings:
    """Read a file of kind ``Scheduler`` or a KubeSchedulerConfiguration, told apart by their kinds.

    What would place pods differently than the file says is refused; ``lenient`` makes notes of it instead.
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
            hint="a scheduler is configured here; pods and what makes them are given to the cluster",
        )
    return read_own(document, lenient=lenient)


def is_scheduler_file(document: Document) -> bool:
    """Say whether a document configures a scheduler, in either format."""
    data = document.data
    is_ours = isinstance(data, dict) and data.get("kind") == KIND and _group(document) == "hostler"
    return is_ours or _group(document) == COMPONENT_GROUP


def default_settings(scheduler_name: str = DEFAULT_SCHEDULER_NAME, policy: str = DEFAULT_POLICY) -> SchedulerSettings:
    """Return the settings without any file: one profile, by a built-in policy, with preemption on."""
    found = find_policy(policy)
    return SchedulerSettings(
        profiles=(Profile(scheduler_name, found.name),),
        policies=(msgspec.structs.replace(found, preemption=found.preemption or PreemptionRules()),),
    )


def _group(document: Document) -> str:
    version = document.data.get("apiVersion") if isinstance(document.data, dict) else None
    return version.partition("/")[0] if isinstance(version, str) else ""
