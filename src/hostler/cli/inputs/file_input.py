"""Files, flags and environment to the input of a placement: what ``place``, ``explain`` and ``capacity`` begin with.

Our own format and Kubernetes manifests may be mixed. All checks across files are made by ``config.merge_fleets``; what
remains here is that every policy that is named exists.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from hostler.cli.inputs.fleet_parts import FleetPart, is_pod, read_parts
from hostler.cli.output.terminal import note
from hostler.config import (
    DeclaredFleet,
    choose_policy,
    merge_fleets,
    prefer_fleet_policy,
    read_configuration,
    read_documents,
    with_folder_files,
)
from hostler.engine import BUILT_IN, find_policy
from hostler.engine.policy.registry import suggest
from hostler.errors import DuplicateNameError, InputError, UnknownNameError
from hostler.model import Guest, GuestSpec, Policy
from hostler.model.hosts import HOSTNAME, with_hostname
from hostler.queries import PlacementInput, display_name, find_guest, input_advice, needs_mix, with_mixes
from hostler.runtime.plugins import registry_for

__all__ = ["FileInput", "check_named_policies", "read_guest", "read_inputs", "without_lost_pods"]


class FileInput(PlacementInput, frozen=True, kw_only=True):
    """What the files of a command hold; ``policies`` has the default first, then those that guests name.

    Policies are as they were declared, preemption included; a command takes it away or puts it in.
    """

    known: Mapping[str, Policy]

    @property
    def declared(self) -> tuple[Policy, ...]:
        """Return the policies in use that are not built in, as they were declared: an output must carry them."""
        return tuple(self.known[policy.name] for policy in self.policies if policy.name not in BUILT_IN)


def read_inputs(
    files: Sequence[str],
    *,
    policy: str = "",
    config: str = "",
    seed: int = 0,
    seed_annotations: bool = False,
    more_specs: Sequence[GuestSpec] = (),
    plugins: Sequence[Path] = (),
) -> FileInput:
    """Read everything, and print notes; ``more_specs`` are guests from elsewhere whose policies count too.

    ``plugins`` are Python files with policies and plugins; their policies are known as those of the configuration are.
    """
    from hostler.runtime.plugin_files import load_plugin_files

    own = load_plugin_files(plugins)
    configured = read_configuration(BUILT_IN, config=config)
    known = {**BUILT_IN, **{one.name: one for one in configured.policies}, **own.policies}
    parts = read_parts(read_documents(with_folder_files(files)), known, seed_annotations=seed_annotations)
    fleet = _merge_parts(parts, known)
    declared = {one.name: one for one in fleet.policies}
    # Only now that the policies of the files are known: a flag or a variable may name one of them.
    settings = choose_policy(configured, {**BUILT_IN, **own.policies, **declared}, policy)
    settings = prefer_fleet_policy(settings, fleet.policy, "the input files")
    known.update(declared)
    find_policy(settings.default_policy, known)
    named = {settings.default_policy: None}  # in order; the default first
    specs = [guest.spec for guest in fleet.guests]
    check_named_policies(fleet, known)
    distinct = dict.fromkeys((*more_specs, *specs))
    fleet = _with_hostnames(fleet, distinct)
    for spec in distinct:
        if spec.policy and spec.policy not in named:
            named[find_policy(spec.policy, known).name] = None
    policies = _with_mixes([find_policy(name, known) for name in named], specs or more_specs)
    inputs = FileInput(
        hosts=fleet.hosts,
        guests=fleet.guests,
        tenancy=fleet.tenancy,
        policies=policies,
        queue=settings.queue,
        registry=registry_for(policies, own.factories),
        seed=seed,
        pods=frozenset(guest.uid for index, guest in enumerate(fleet.guests) if is_pod(fleet, index)),
        known=known,
    )
    for line in input_advice(inputs, distinct):
        note(line)
    return inputs


def _with_hostnames(fleet: DeclaredFleet, specs: Iterable[GuestSpec]) -> DeclaredFleet:
    """Label the hosts of fleet files with their names, as Kubernetes labels nodes, if any guest or gang needs that."""
    if not any(map(_names_hostname, specs)) and not any(gang.topology == HOSTNAME for gang in fleet.tenancy.gangs):
        return fleet
    hosts = tuple(
        host if place[0].data is None else with_hostname(host)
        for host, place in zip(fleet.hosts, fleet.host_places, strict=True)
    )
    return msgspec.structs.replace(fleet, hosts=hosts)


def _names_hostname(spec: GuestSpec) -> bool:
    topologies = (
        *(term.topology for term in (*spec.affinity, *spec.anti_affinity)),
        *(one.term.topology for one in (*spec.preferred_affinity, *spec.preferred_anti_affinity)),
        *(spread.topology for spread in spec.spread),
    )
    return HOSTNAME in topologies or spec.siblings is not None


def read_guest(path: str, name: str, *, seed_annotations: bool = False) -> Guest:
    """Read the guest to count from a file; its hosts, and where the guest runs now, do not matter."""
    parts = read_parts(read_documents([path]), BUILT_IN, seed_annotations=seed_annotations)
    guests = [msgspec.structs.replace(guest, host="", on_devices=()) for part in parts for guest in part.fleet.guests]
    if not guests:
        raise InputError(f"{path}: it has no guests", hint="give a file with the guest to count")
    if name:
        return find_guest(guests, name)
    if len({guest.spec for guest in guests}) > 1:
        names = ", ".join(display_name(guest) for guest in guests[:6])
        more = f" and {len(guests) - 6} more" if len(guests) > 6 else ""
        raise InputError(
            f"{path}: it has {len(guests)} guests that differ", hint=f"choose by --guest-name: {names}{more}"
        )
    return guests[0]


def _with_mixes(policies: Sequence[Policy], specs: Sequence[GuestSpec]) -> tuple[Policy, ...]:
    """Give policies the typical mix of the guests at hand; files without any guest are a mistake."""
    for policy in policies:
        if not specs and needs_mix(policy):
            raise InputError(
                f"policy {policy.name!r} measures by a typical mix of guests, and there are no guests",
                hint="add guests, or give the policy a 'mix'",
            )
    return with_mixes(policies, specs)


def _merge_parts(parts: Sequence[FleetPart], known: Mapping[str, Policy]) -> DeclaredFleet:
    """Put the parts together, without the policies that are known already and pods whose nodes are gone."""
    hosts = {host.name for part in parts for host in part.fleet.hosts}
    return merge_fleets([without_lost_pods(_without_known(part.fleet, known), hosts) for part in parts])


def _without_known(part: DeclaredFleet, known: Mapping[str, Policy]) -> DeclaredFleet:
    """Drop policies that the configuration also has, if they are equal. Reject them if they differ."""
    for policy in part.policies:
        if policy.name in known and known[policy.name] != policy:
            raise DuplicateNameError(
                f"policy {policy.name!r} of the input differs from the configuration's",
                hint="rename one of them",
            )
    return msgspec.structs.replace(part, policies=tuple(p for p in part.policies if p.name not in known))


def without_lost_pods(part: DeclaredFleet, hosts: Collection[str]) -> DeclaredFleet:
    """Drop pods of nodes that are gone, with a note: live clusters often have some, which nothing collected yet."""
    if not hosts:  # then it is the nodes that were forgotten
        return part
    lost = {at for at, guest in enumerate(part.guests) if guest.host and guest.host not in hosts and is_pod(part, at)}
    if not lost:
        return part
    first, source = part.guests[min(lost)], part.guest_places[min(lost)][0].source
    who = f"pod {first.spec.namespace}/{first.name}"
    if len(lost) == 1:
        note(f"{source}: {who} does not count: its node {first.host} is not there")
    else:
        note(f"{source}: {who} and {len(lost) - 1} more do not count: their nodes, such as {first.host}, are not there")
    stay = [at for at in range(len(part.guests)) if at not in lost]
    return msgspec.structs.replace(
        part,
        guests=tuple(part.guests[at] for at in stay),
        guest_places=tuple(part.guest_places[at] for at in stay),
    )


def check_named_policies(fleet: DeclaredFleet, known: Mapping[str, Policy]) -> None:
    """Reject a guest that names a policy that is not declared."""
    for index, guest in enumerate(fleet.guests):
        name = guest.spec.policy
        if not name or name in known:
            continue
        document, path = fleet.guest_places[index]
        raise UnknownNameError(
            f"{document.where((*path, 'policy'))}: guest {guest.name!r} names policy {name!r}, which does not exist",
            hint=suggest(name, known),
        )
