"""Files, flags and environment to one fleet and its policies: what ``place``, ``explain`` and ``capacity`` begin with.

Our own format and Kubernetes manifests may be mixed. All checks across files are made by ``config.merge``; what
remains here is that every policy which somebody names exists.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import msgspec

from hostler.cli.advice import advice, gang_advice, topology_advice
from hostler.cli.hostnames import with_hostnames
from hostler.cli.parts import is_pod, read_parts
from hostler.cli.terminal import note
from hostler.config import (
    POLICY_VARIABLE,
    Fleet,
    Settings,
    load_settings,
    merge,
    prefer_fleet_policy,
    read_documents,
)
from hostler.engine import BUILT_IN, find_policy, typical_mix
from hostler.engine.registry import suggest
from hostler.errors import DuplicateNameError, InputError, UnknownNameError
from hostler.model import GuestSpec, Policy, PreemptionRules, QueueRules

__all__ = ["Budgets", "Inputs", "check_named_policies", "read_inputs", "with_mix", "with_preemption"]
__all__ += ["without_lost_pods"]

FGD = "fgd"

Budgets = Literal["", "best_effort", "strict"]  # what --budgets says; empty: as the policy does


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """What a command works on; ``policies`` has the default first, then those that guests name.

    They are as they were declared, preemption included; a command takes it away or puts it in, see ``with_preemption``.
    """

    fleet: Fleet
    policies: tuple[Policy, ...]
    known: Mapping[str, Policy]
    queue: QueueRules
    pods: frozenset[str] = frozenset()  # the uids of guests that come from Kubernetes manifests

    @property
    def policy(self) -> Policy:
        """Return the default policy."""
        return self.policies[0]

    @property
    def declared(self) -> tuple[Policy, ...]:
        """Return the policies in use that are not built in, as they were declared: an output must carry them."""
        return tuple(self.known[policy.name] for policy in self.policies if policy.name not in BUILT_IN)


def read_inputs(
    files: Sequence[str],
    *,
    policy: str = "",
    config: str = "",
    seed_annotations: bool = False,
    more_specs: Sequence[GuestSpec] = (),
) -> Inputs:
    """Read everything; ``more_specs`` are guests from elsewhere whose policies count too."""
    fleet, settings, known = _read(files, policy, config, seed_annotations)
    named = {settings.default_policy: None}  # in order; the default first
    specs = [guest.spec for guest in fleet.guests]
    check_named_policies(fleet, known)
    distinct = dict.fromkeys((*more_specs, *specs))
    fleet = with_hostnames(fleet, distinct)
    for spec in distinct:
        if spec.policy and spec.policy not in named:
            named[find_policy(spec.policy, known).name] = None
    policies = tuple(with_mix(find_policy(name, known), specs or more_specs) for name in named)
    about_names = topology_advice(fleet.hosts, distinct, fleet.tenancy.gangs)
    for line in (*advice(fleet.hosts, distinct, policies), *gang_advice(fleet), *about_names):
        note(line)
    pods = frozenset(guest.uid for index, guest in enumerate(fleet.guests) if is_pod(fleet, index))
    return Inputs(fleet=fleet, policies=policies, known=known, queue=settings.queue, pods=pods)


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


def with_preemption(policies: Sequence[Policy], *, is_on: bool, budgets: Budgets = "") -> tuple[Policy, ...]:
    """Turn evictions on (by each policy's own rules, else the usual ones) or off; ``budgets`` beats the rules."""
    replace = msgspec.structs.replace
    if not is_on:
        return tuple(replace(policy, preemption=None, reclaim=False) for policy in policies)
    return tuple(replace(policy, preemption=_rules(policy, budgets)) for policy in policies)


def _rules(policy: Policy, budgets: Budgets) -> PreemptionRules:
    rules = policy.preemption or PreemptionRules()
    return msgspec.structs.replace(rules, budgets=budgets) if budgets else rules


def _read(
    files: Sequence[str], policy: str, config: str, seed_annotations: bool
) -> tuple[Fleet, Settings, dict[str, Policy]]:
    without_policy = {name: value for name, value in os.environ.items() if name != POLICY_VARIABLE}
    configured = load_settings(BUILT_IN, config=config, environ=without_policy)
    known = {**BUILT_IN, **{one.name: one for one in configured.policies}}
    parts = read_parts(read_documents(files), known, seed_annotations=seed_annotations)
    hosts = {host.name for part in parts for host in part.fleet.hosts}
    fleet = merge([without_lost_pods(_without_known(part.fleet, known), hosts) for part in parts])
    declared = {one.name: one for one in fleet.policies}
    # Again, now that the policies of the files are known: a flag or a variable may name one of them.
    settings = load_settings({**BUILT_IN, **declared}, config=config, policy=policy)
    settings = prefer_fleet_policy(settings, fleet.policy, "the input files")
    known.update(declared)
    find_policy(settings.default_policy, known)
    return fleet, settings, known


def _without_known(part: Fleet, known: Mapping[str, Policy]) -> Fleet:
    """Drop policies that the configuration has as well, when they are the same; refuse them when they are not."""
    for policy in part.policies:
        if policy.name in known and known[policy.name] != policy:
            raise DuplicateNameError(
                f"policy {policy.name!r} of the input differs from the configuration's",
                hint="rename one of them",
            )
    return msgspec.structs.replace(part, policies=tuple(p for p in part.policies if p.name not in known))


def without_lost_pods(part: Fleet, hosts: Collection[str]) -> Fleet:
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
