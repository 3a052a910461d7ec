"""Files, flags and environment to one fleet and its policies: what ``place``, ``explain`` and ``capacity`` begin with.

Our own format and Kubernetes manifests may be mixed. All checks across files are made by ``config.merge``; what
remains here is that every policy which somebody names exists.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from hostler.cli.advice import advice
from hostler.cli.terminal import note
from hostler.config import (
    POLICY_VARIABLE,
    Document,
    Fleet,
    Settings,
    invalid,
    kind_of,
    load_settings,
    merge,
    prefer_fleet_policy,
    read_documents,
    read_fleet,
)
from hostler.engine import BUILT_IN, find_policy, typical_mix
from hostler.engine.registry import suggest
from hostler.errors import DuplicateNameError, InputError, UnknownNameError
from hostler.manifests import Note, is_manifest, read_manifests
from hostler.model import GuestSpec, Policy, QueueRules

__all__ = ["Inputs", "check_named_policies", "read_inputs", "read_parts", "with_mix"]

FGD = "fgd"


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """What a command works on; ``policies`` has the default first, then those that guests name."""

    fleet: Fleet
    policies: tuple[Policy, ...]
    known: Mapping[str, Policy]
    queue: QueueRules

    @property
    def policy(self) -> Policy:
        """Return the default policy."""
        return self.policies[0]

    @property
    def declared(self) -> tuple[Policy, ...]:
        """Return the policies in use that are not built in, as they were declared: an output must carry them."""
        return tuple(self.known[policy.name] for policy in self.policies if policy.name not in BUILT_IN)


def read_inputs(
    files: Sequence[str], *, policy: str = "", config: str = "", more_specs: Sequence[GuestSpec] = ()
) -> Inputs:
    """Read everything; ``more_specs`` are guests from elsewhere whose policies count too."""
    fleet, settings, known = _read(files, policy, config)
    named = [settings.default_policy]
    specs = [guest.spec for guest in fleet.guests]
    check_named_policies(fleet, known)
    distinct = dict.fromkeys((*more_specs, *specs))
    for spec in distinct:
        if spec.policy and spec.policy not in named:
            named.append(find_policy(spec.policy, known).name)
    policies = tuple(with_mix(find_policy(name, known), specs or more_specs) for name in named)
    for line in advice(fleet.hosts, distinct, policies):
        note(line)
    return Inputs(fleet=fleet, policies=policies, known=known, queue=settings.queue)


def with_mix(policy: Policy, specs: Sequence[GuestSpec]) -> Policy:
    """Give a policy that measures fragmentation the typical mix of the guests at hand, unless it has one."""
    if policy.mix or not any(scorer.name == FGD for scorer in policy.scorers):
        return policy
    if not specs:
        raise InputError(
            f"policy {policy.name!r} measures by a typical mix of guests, and there are no guests",
            hint="add guests, or give the policy a 'mix'",
        )
    return msgspec.structs.replace(policy, mix=typical_mix(specs))


def read_parts(documents: Iterable[Document], known: Mapping[str, Policy]) -> list[Fleet]:
    """Read documents of either kind; the manifests of one file become one fleet, and their notes are printed."""
    parts: list[Fleet] = []
    manifests: dict[str, list[Mapping[str, object]]] = {}
    for document in documents:
        if is_manifest(document.data):
            assert isinstance(document.data, Mapping)
            manifests.setdefault(document.source, []).append(document.data)
            continue
        _, kind = kind_of(document)
        if kind == "Config":
            raise invalid(document, ("kind",), "is 'Config'", hint=f"give it by --config {document.source}")
        parts.append(read_fleet(document, _without_repeated(document, known)))
    notes: list[Note] = []
    for source, objects in manifests.items():
        part, its_notes = _read_manifests(source, objects)
        parts.append(part)
        notes += its_notes
    _print_notes(notes)
    return parts


def _read(files: Sequence[str], policy: str, config: str) -> tuple[Fleet, Settings, dict[str, Policy]]:
    without_policy = {name: value for name, value in os.environ.items() if name != POLICY_VARIABLE}
    configured = load_settings(BUILT_IN, config=config, environ=without_policy)
    known = {**BUILT_IN, **{one.name: one for one in configured.policies}}
    parts = [_without_known(part, known) for part in read_parts(read_documents(files), known)]
    fleet = merge(parts)
    declared = {one.name: one for one in fleet.policies}
    # Again, now that the policies of the files are known: a flag or a variable may name one of them.
    settings = load_settings({**BUILT_IN, **declared}, config=config, policy=policy)
    settings = prefer_fleet_policy(settings, fleet.policy, "the input files")
    known.update(declared)
    find_policy(settings.default_policy, known)
    return fleet, settings, known


def _read_manifests(source: str, objects: Sequence[Mapping[str, object]]) -> tuple[Fleet, tuple[Note, ...]]:
    try:
        found = read_manifests(objects)
    except InputError as error:
        raise type(error)(f"{source}: {error.message}", hint=error.hint) from error
    place = (Document(None, source), ())
    fleet = Fleet(
        hosts=found.hosts,
        guests=found.guests,
        host_places=(place,) * len(found.hosts),
        guest_places=(place,) * len(found.guests),
    )
    return fleet, found.notes


def _without_repeated(document: Document, known: Mapping[str, Policy]) -> dict[str, Policy]:
    """Leave out what the document declares itself: an output repeats the policies that it was made with."""
    data = document.data
    entries = data.get("policies") if isinstance(data, Mapping) else None
    own = {
        entry["name"]
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, Mapping) and isinstance(entry.get("name"), str)
    }
    return {name: policy for name, policy in known.items() if name in BUILT_IN or name not in own}


def _without_known(part: Fleet, known: Mapping[str, Policy]) -> Fleet:
    """Drop policies that the configuration has as well, when they are the same; refuse them when they are not."""
    for policy in part.policies:
        if policy.name in known and known[policy.name] != policy:
            raise DuplicateNameError(
                f"policy {policy.name!r} of the input differs from the configuration's",
                hint="rename one of them",
            )
    return msgspec.structs.replace(part, policies=tuple(p for p in part.policies if p.name not in known))


def check_named_policies(fleet: Fleet, known: Mapping[str, Policy]) -> None:
    """Refuse a guest that names a policy which nobody declared."""
    for index, guest in enumerate(fleet.guests):
        name = guest.spec.policy
        if not name or name in known:
            continue
        document, path = fleet.guest_places[index]
        raise UnknownNameError(
            f"{document.where((*path, 'policy'))}: guest {guest.name!r} names policy {name!r}, which does not exist",
            hint=suggest(name, known),
        )


def _print_notes(notes: Sequence[Note]) -> None:
    """Print what did not count, one line for all objects of a kind that it is true of."""
    groups: dict[tuple[str, str, str], list[Note]] = {}
    for one in notes:
        groups.setdefault((one.object.split(" ", 1)[0], one.field, one.text), []).append(one)
    for (kind, field, text), group in groups.items():
        more = f" and {len(group) - 1} more of kind {kind}" if len(group) > 1 else ""
        note(f"{group[0].object}{more}: {field} {text}" if field else f"{group[0].object}{more}: {text}")
