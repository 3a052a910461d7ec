"""Redaction of what guests say about each other, and of gangs, budgets, quotas and reservations."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from random import Random
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec import inspect

from hostler.engine import Engine
from hostler.engine.checkpoint import Checkpoint
from hostler.engine.journals.journal import (
    CheckpointEntry,
    FactEntry,
    Journal,
    Recorder,
    StepEntry,
    read_journal,
    replay,
    write_journal,
)
from hostler.engine.journals.redaction import redact, redact_event
from hostler.engine.journals.redaction_values import NameMap, NewNames
from hostler.errors import FactError, InputError
from hostler.model import (
    Budget,
    BudgetChanged,
    BudgetLeft,
    Defer,
    Event,
    EvictFailed,
    Expression,
    Gang,
    GangChanged,
    GangLeft,
    Guest,
    GuestArrived,
    GuestChanged,
    GuestLeft,
    GuestsArrived,
    GuestSpec,
    GuestTerm,
    Host,
    HostChanged,
    HostJoined,
    HostLeft,
    HostPort,
    HostShare,
    HostsJoined,
    NamespaceChanged,
    PolicyChanged,
    Quota,
    QuotasChanged,
    Reservation,
    ReservationChanged,
    ReservationLeft,
    ScorerUse,
    Selector,
    Spread,
    Taint,
    Term,
    WeightedGuestTerm,
    amounts,
    labels,
)
from hostler.model.hosts import HOSTNAME
from tests.engine.fleet import QUICK, SECOND, policy

# A policy whose arguments name a topology of the house.
RACK = "open-rack"
ARGS = msgspec.json.encode({"defaults": [{"topology": RACK, "is_hard": False}]}).decode()
SPREADING = policy("kubernetes", name="house", scorers=(ScorerUse("even_spread", 2, ARGS), ScorerUse("near_guests", 2)))
POLICIES = (policy("spread"), policy("kubernetes"), SPREADING)


def raw_text(journal: Journal) -> bytes:
    """Return everything that a reader of the journal sees, checkpoints unpacked."""
    lines: list[bytes] = []
    write_journal(journal, lines.append)
    lines += [entry.checkpoint for entry in journal.entries if isinstance(entry, CheckpointEntry)]
    return b"\n".join(lines)


def redacted(*events: Event) -> list[Any]:
    """Redact events without an engine."""
    seen = NameMap()
    for event in events:
        assert redact_event(event, seen).__class__ is event.__class__
    new = NewNames(seen)
    return [redact_event(event, new) for event in events]


def redacted_spec(spec: GuestSpec, *others: Event) -> GuestSpec:
    found = redacted(GuestArrived(guest=Guest(name="g", uid="g", spec=spec)), *others)[0].guest.spec
    assert isinstance(found, GuestSpec)
    return found


def select(**wanted: str) -> Selector:
    return Selector(tuple(Expression(key, "In", (value,)) for key, value in wanted.items()))


# -- no field is forgotten: facts in which every text is a secret -----------------------------------------------------

# What stays: resources, kinds and models of devices, policies, plugins and their codes.
OPEN = {
    "requests", "scored_requests", "capacity", "overcommit", "reserve", "taken", "amounts", "min", "max", "resources",
    "kind", "kinds", "model", "models", "policy", "plugin", "code", "turn", "policies", "rules",
}  # fmt: skip


def filled(kind: inspect.Type, field: str = "") -> Any:
    """Return plain data of a type, one element in every collection, and a secret in every text that is no open one."""
    match kind:
        case inspect.StrType():
            return "open" if field in OPEN else f"secret-{field}"
        case inspect.IntType() | inspect.FloatType():
            return 1
        case inspect.BoolType():
            return True
        case inspect.BytesType():
            return b""
        case inspect.LiteralType():
            return kind.values[-1]
        case inspect.UnionType():
            return filled(next(t for t in kind.types if not isinstance(t, inspect.NoneType)), field)
        case inspect.TupleType():
            return [filled(t, field) for t in kind.item_types]
        case inspect.VarTupleType() | inspect.ListType():
            return [] if field == "policies" else [filled(kind.item_type, field)]
        case inspect.DictType():
            key = 1 if isinstance(kind.key_type, inspect.IntType) else "open" if field == "turns" else f"secret-{field}"
            return {key: filled(kind.value_type, field)}
        case inspect.NamedTupleType():
            return [filled(f.type, f.name) for f in kind.fields]
        case inspect.StructType():
            tag = {} if kind.tag_field is None else {kind.tag_field: kind.tag}
            return tag | {f.encode_name: filled(f.type, f.name) for f in kind.fields}
    raise AssertionError(f"{kind} in {field}: say here how to fill it")


def secret(kind: Any) -> Any:
    return msgspec.convert(filled(inspect.type_info(kind)), kind)


def compare(old: Any, new: Any) -> None:
    """Check that only secrets were replaced, and that the same secret became the same name."""
    if isinstance(old, dict):
        for (key, value), (new_key, new_value) in zip(old.items(), new.items(), strict=True):
            compare(key, new_key)
            compare(value, new_value)
    elif isinstance(old, list | tuple):
        for one, other in zip(old, new, strict=True):
            compare(one, other)
    elif isinstance(old, str) and "secret" in old:
        assert new
        assert "secret" not in new
    else:
        assert old == new


@pytest.mark.parametrize("kind", [k for k in get_args(Event) if k is not PolicyChanged], ids=lambda k: k.__name__)
def test_no_text_of_an_event_is_forgotten(kind):
    event = secret(kind)
    assert b"secret" in msgspec.json.encode(event)
    (found,) = redacted(event)
    assert b"secret" not in msgspec.json.encode(found)
    compare(msgspec.to_builtins(event), msgspec.to_builtins(found))


def test_no_text_of_a_checkpoint_is_forgotten():
    saved = secret(Checkpoint)
    lines: list[bytes] = []
    recorder = Recorder(Engine(POLICIES), lines.append)
    recorder.step(1)
    journal = read_journal(lines)
    # Only a checkpoint at the beginning is restored, so that this one need not make sense.
    entries = (*journal.entries, CheckpointEntry(msgspec.msgpack.encode(saved)))
    last = redact(Journal(journal.header, entries)).entries[-1]
    assert isinstance(last, CheckpointEntry)
    assert b"secret" not in last.checkpoint
    compare(msgspec.to_builtins(saved), msgspec.to_builtins(msgspec.msgpack.decode(last.checkpoint, type=Checkpoint)))


# -- names that belong together ---------------------------------------------------------------------------------------


def test_selectors_still_select_what_they_selected():
    worn = labels({"secret-app": "secret-shop", "secret-size": "17", "secret-tier": "front"})
    selectors = {
        "in": Selector((Expression("secret-app", "In", ("secret-shop", "other")),)),
        "not in": Selector((Expression("secret-tier", "NotIn", ("back",)),)),
        "exists": Selector((Expression("secret-size"),)),
        "greater": Selector((Expression("secret-size", "Gt", ("16",)),)),
        "less": Selector((Expression("secret-size", "Lt", ("18",)),)),
        "not this": Selector((Expression("secret-app", "NotIn", ("secret-shop",)),)),
        "absent": Selector((Expression("secret-app", "DoesNotExist"),)),
        "not greater": Selector((Expression("secret-size", "Gt", ("17",)),)),
        "no number": Selector((Expression("secret-tier", "Gt", ("front",)),)),
        "everybody": Selector(),
    }
    spec = GuestSpec(labels=worn, affinity=tuple(GuestTerm("secret-zone", s) for s in selectors.values()))
    found = redacted_spec(spec)
    before = [selector.matches(worn) for selector in selectors.values()]
    assert before == [True] * 5 + [False] * 4 + [True]
    assert [term.selector.matches(found.labels) for term in found.affinity if term.selector is not None] == before


def test_nobody_and_everybody_are_not_confused():
    found = redacted_spec(GuestSpec(anti_affinity=(GuestTerm("t"), GuestTerm("t", Selector())), siblings=None))
    assert [term.selector for term in found.anti_affinity] == [None, Selector()]
    assert found.siblings is None


def test_a_topology_is_renamed_like_the_label_that_hosts_have():
    spec = GuestSpec(spread=(Spread("secret-zone"),), anti_affinity=(GuestTerm("secret-zone", Selector()),))
    host = Host(name="h", labels=labels({"secret-zone": "east"}), taints=(Taint("secret-zone"),))
    gang = Gang(name="g", topology="secret-zone")
    arrived, joined, changed = redacted(
        GuestArrived(guest=Guest(name="g", uid="g", spec=spec)), HostJoined(host=host), GangChanged(gang=gang)
    )
    new = joined.host.labels[0][0]
    assert new != "secret-zone"
    assert {arrived.guest.spec.spread[0].topology, arrived.guest.spec.anti_affinity[0].topology} == {new}
    assert (changed.gang.topology, joined.host.taints[0].key) == (new, new)


def test_a_namespace_is_the_same_everywhere():
    term = GuestTerm("zone", select(app="shop"), namespaces=("secret-space",), namespace_selector=select(team="secret"))
    spec = GuestSpec(namespace="secret-space", affinity=(term,), preferred_affinity=(WeightedGuestTerm(5, term),))
    arrived, named, gang, budget, left = redacted(
        GuestArrived(guest=Guest(name="g", uid="g", spec=spec, gang="secret-space/four")),
        NamespaceChanged(name="secret-space", labels=labels({"team": "secret"})),
        GangChanged(gang=Gang(name="four", namespace="secret-space")),
        BudgetChanged(budget=Budget(name="web", namespace="secret-space", selector=select(app="shop"))),
        BudgetLeft(key="secret-space/web"),
    )
    new = arrived.guest.spec.namespace
    assert new not in ("", "secret-space")
    assert {named.name, gang.gang.namespace, budget.budget.namespace} == {new}
    found = arrived.guest.spec.affinity[0]
    assert found.namespaces == (new,)
    assert found.namespace_selector.matches(named.labels)
    assert arrived.guest.spec.preferred_affinity == (WeightedGuestTerm(5, found),)
    assert left.key == budget.budget.key


def test_a_gang_is_the_same_everywhere():
    arrived, changed, reserved, left = redacted(
        GuestArrived(guest=Guest(name="g", uid="g", gang="space/four", started=17)),
        GangChanged(gang=Gang(name="four", namespace="space", min_count=4, max_count=5, priority=3)),
        ReservationChanged(reservation=Reservation(name="r", gang="space/four")),
        GangLeft(key="space/four"),
    )
    assert "four" not in left.key
    assert {arrived.guest.gang, changed.gang.key, reserved.reservation.gang} == {left.key}
    assert arrived.guest.started == 17
    assert (changed.gang.min_count, changed.gang.max_count, changed.gang.priority) == (4, 5, 3)


def test_a_guest_without_a_gang_still_has_none():
    assert redacted(GuestArrived(guest=Guest(name="g", uid="g")))[0].guest.gang == ""


def test_budgets_and_reservations_lose_all_names():
    budget = Budget(name="b", selector=select(app="shop"), allowed=1, disrupted=("secret-guest",))
    held = Reservation(
        name="r",
        amounts=amounts({"cpu": 5}),
        hosts=(Term((Expression("zone", "In", ("east",)),), (Expression("metadata.name", "In", ("secret-host",)),)),),
        tenant="secret-tenant",
        selector=select(app="shop"),
        until=9,
    )
    quota = Quota(tenant="secret-tenant", min=amounts({"cpu": 3}), max=amounts({"cpu": 7}))
    spec = GuestSpec(labels=labels({"app": "shop"}), tenant="secret-tenant")
    arrived, joined, b, q, r, left = redacted(
        GuestArrived(guest=Guest(name="secret-guest", uid="u", spec=spec)),
        HostJoined(host=Host(name="secret-host", labels=labels({"zone": "east"}))),
        BudgetChanged(budget=budget),
        QuotasChanged(quotas=(quota,)),
        ReservationChanged(reservation=held),
        ReservationLeft(name="r"),
    )
    assert b.budget.disrupted == (arrived.guest.name,)
    assert b.budget.selector.matches(arrived.guest.spec.labels)
    assert (q.quotas[0].min, q.quotas[0].max) == (quota.min, quota.max)
    assert q.quotas[0].tenant == r.reservation.tenant == arrived.guest.spec.tenant != "secret-tenant"
    assert r.reservation.hosts[0].matches(joined.host.name, joined.host.labels)
    assert (r.reservation.amounts, r.reservation.until, r.reservation.name) == (held.amounts, 9, left.name)


def test_shares_of_a_reservation_lose_the_names_of_hosts_and_keep_their_order():
    shares = (HostShare("secret-a", amounts({"cpu": 3})), HostShare("secret-b", amounts({"cpu": 1})))
    held = Reservation(name="r", tenant="t", shares=shares)
    second, first, r = redacted(
        HostJoined(host=Host(name="secret-b")),
        HostJoined(host=Host(name="secret-a")),
        ReservationChanged(reservation=held),
    )
    assert r.reservation.shares == ((first.host.name, shares[0][1]), (second.host.name, shares[1][1]))
    assert sorted(r.reservation.shares) == list(r.reservation.shares)


def test_an_image_and_an_address_are_the_same_on_guests_and_hosts():
    joined, arrived = redacted(
        HostJoined(host=Host(name="h", images=(("secret/image:1", 500), ("other", 5)))),
        GuestArrived(
            guest=Guest(
                name="g",
                uid="g",
                spec=GuestSpec(
                    images=("secret/image:1", "secret/image:1"),
                    ports=(HostPort(80, "UDP", "10.1.2.3"), HostPort(443), HostPort(81, "UDP", "10.1.2.3")),
                ),
            )
        ),
    )
    (image, size), _ = joined.host.images
    assert size == 500
    assert arrived.guest.spec.images == (image, image)
    one, every, other = arrived.guest.spec.ports
    assert (one.port, one.protocol, every) == (80, "UDP", HostPort(443))
    assert one.address == other.address not in ("", "10.1.2.3")


def test_guests_that_lack_support_for_different_things_stay_different():
    one, other = redacted_spec(GuestSpec(unsupported=("claim a", "claim b"))).unsupported
    assert one != other


def test_why_an_eviction_failed_is_not_told():
    said, silent = redacted(EvictFailed(uid="g", reason="the boss's pc"), EvictFailed(uid="g"))
    assert (said.reason, silent.reason) == ("redacted", "")


def test_the_version_at_which_a_host_left_stays():
    (found,) = redacted(HostLeft(name="secret", uid="u", version=17))
    assert found.version == 17


# -- names that stay, and their neighbours ----------------------------------------------------------------------------


def test_label_that_makes_each_host_a_domain_keeps_its_key():
    worn = labels({HOSTNAME: "secret-host", "secret-zone": "east"})
    (found,) = redacted(HostJoined(host=Host(name="secret-host", labels=worn)))
    assert dict(found.host.labels)[HOSTNAME] == found.host.name != "secret-host"
    assert redacted_spec(GuestSpec(spread=(Spread(HOSTNAME),))).spread == (Spread(HOSTNAME),)


def test_label_keys_of_policies_stay_and_equal_names_do_not():
    host = Host(name=RACK, labels=labels({RACK: "secret-rack", "secret-zone": RACK}))
    joined, _ = redacted(HostJoined(host=host), PolicyChanged(policies=POLICIES))
    assert joined.host.name != RACK
    (_, rack), (zone, of_zone) = sorted(joined.host.labels, key=lambda label: label[0] != RACK)
    assert [key for key, _ in joined.host.labels].count(RACK) == 1
    assert rack != "secret-rack"
    assert (zone == "secret-zone", of_zone) == (False, joined.host.name)


def test_label_keys_that_only_the_first_policies_name_stay_too():
    lines: list[bytes] = []
    recorder = Recorder(Engine((SPREADING,)), lines.append)
    recorder.apply(HostJoined(host=Host(name="h", labels=labels({RACK: "a", "topology.kubernetes.io/zone": "b"}))))
    entry = redact(read_journal(lines)).entries[0]
    assert isinstance(entry, FactEntry)
    keys = [key for key, _ in entry.event.host.labels]
    assert keys[0] == RACK
    assert "topology.kubernetes.io/zone" not in keys


def test_no_new_name_is_that_of_a_key_that_stays():
    args = msgspec.json.encode({"topology": "n0000000", "more": ["n0000002", {"n0000003": None}]}).decode()
    policies = (policy("spread", scorers=(ScorerUse("mine", 1, args),)),)
    keys = ["n0000000", "n0000002", "n0000003", "a", "b", "c"]
    joined, _ = redacted(
        HostJoined(host=Host(name="h", labels=tuple((key, "1") for key in keys))), PolicyChanged(policies=policies)
    )
    found = [key for key, _ in joined.host.labels]
    assert found[:3] == keys[:3]
    assert len(set(found)) == len(keys)


def test_labels_stay_in_their_order_because_refusals_count_them():
    selector = labels({"apple": "1", HOSTNAME: "2", "zebra": "3"})
    assert [value for _, value in redacted_spec(GuestSpec(host_selector=selector)).host_selector] == ["1", "2", "3"]


def test_arguments_that_are_no_json_are_rejected_by_the_engine():
    lines: list[bytes] = []
    Recorder(Engine(POLICIES), lines.append)
    bad = PolicyChanged(policies=(policy("spread", scorers=(ScorerUse("even_spread", 1, "{"),)),))
    with pytest.raises(InputError, match="JSON"):
        redact(Journal(read_journal(lines).header, (FactEntry(bad),)))


PARTS = st.text("a-.bdefult", min_size=1, max_size=9)


@given(keys=st.lists(st.tuples(st.one_of(PARTS, st.just("default")), PARTS), min_size=1, unique=True))
@QUICK
def test_gangs_sort_as_before_whatever_their_namespaces(keys):
    gangs = [Gang(name=name, namespace=namespace) for namespace, name in keys]
    found = [event.gang for event in redacted(*(GangChanged(gang=gang) for gang in gangs))]
    new_key = {old.key: new.key for old, new in zip(gangs, found, strict=True)}
    assert [new_key[key] for key in sorted(new_key)] == sorted(new_key.values())
    assert len(set(new_key.values())) == len(gangs)
    assert all(
        (old.namespace == "default") == (new.namespace == "default") for old, new in zip(gangs, found, strict=True)
    )


# -- a run in which guests look at each other -------------------------------------------------------------------------

SPACES = ["default", "secret-space", "a-secret-space"]
TOPOLOGIES = [HOSTNAME, RACK, "secret-zone"]
HOSTS = [f"secret-host-{n}" for n in range(5)]
IMAGES = ["secret/image:1", "secret/image:2"]


def machine(rng: Random, name: str) -> Host:
    worn = {HOSTNAME: name, RACK: rng.choice(["secret-r1", "secret-r2"]), "secret-zone": rng.choice(["secret-z", "7"])}
    for key in rng.sample(TOPOLOGIES, rng.randrange(2)):
        del worn[key]
    return Host(
        name=name,
        uid=f"secret-uid-{name}",
        capacity=amounts({"cpu": rng.randrange(2, 9), "guests": 6}),
        labels=labels(worn),
        images=tuple((image, rng.randrange(1 << 31)) for image in rng.sample(IMAGES, rng.randrange(3))),
    )


def chosen(rng: Random) -> Selector | None:
    return rng.choice([
        None,
        Selector(),
        Selector((Expression("secret-app", rng.choice(["In", "NotIn"]), (rng.choice(["secret-a", "secret-b"]),)),)),
        Selector((Expression("secret-size", rng.choice(["Gt", "Lt", "Exists"]), ("4",)),)),
    ])  # fmt: skip


def near(rng: Random) -> GuestTerm:
    spaces = tuple(rng.sample(SPACES, rng.randrange(3)))
    team = rng.choice([None, None, Selector(), Selector((Expression("secret-team", "In", ("secret-red",)),))])
    return GuestTerm(rng.choice(TOPOLOGIES), chosen(rng), spaces, team)


def some(rng: Random, make: Any) -> tuple[Any, ...]:
    return tuple(make() for _ in range(rng.choice([0, 0, 0, 1, 2])))


def wishes(rng: Random) -> GuestSpec:
    worn = {"secret-app": rng.choice(["secret-a", "secret-b"]), "secret-size": str(rng.randrange(9))}
    return GuestSpec(
        requests=amounts({"cpu": rng.randrange(3)}),
        policy=rng.choice(["", *(p.name for p in POLICIES)]),
        priority=rng.randrange(3),
        namespace=rng.choice(SPACES),
        labels=labels(worn),
        host_selector=labels({HOSTNAME: rng.choice(HOSTS), "apple": "secret"}) if rng.random() < 0.1 else (),
        affinity=some(rng, lambda: near(rng)),
        anti_affinity=some(rng, lambda: near(rng)),
        preferred_affinity=some(rng, lambda: WeightedGuestTerm(rng.randrange(1, 9), near(rng))),
        preferred_anti_affinity=some(rng, lambda: WeightedGuestTerm(rng.randrange(1, 9), near(rng))),
        spread=some(rng, lambda: Spread(rng.choice(TOPOLOGIES), 1, chosen(rng), rng.random() < 0.5)),
        siblings=chosen(rng),
        ports=some(rng, lambda: HostPort(80 + rng.randrange(2), "TCP", rng.choice(["", "10.5.5.5", "10.6.6.6"]))),
        images=some(rng, lambda: rng.choice(IMAGES)),
        tenant=rng.choice(["", "secret-tenant"]),
        unsupported=("secret-claim",) if rng.random() < 0.05 else (),
        is_leaving=rng.random() < 0.1,
    )


def arrival(rng: Random, number: int) -> Event:
    name, gang = f"secret-guest-{number}", rng.choice(["", "", "secret-space/secret-gang"])
    host = rng.choice(["", "", "", *HOSTS])
    if rng.random() < 0.3:
        return GuestsArrived(specs=(wishes(rng),), spec_of=(0, 0), names=(name, f"{name}-b"), hosts=(host, ""))
    guest = Guest(name=name, uid=f"u-{name}", spec=wishes(rng), host=host, gang=gang, started=rng.randrange(9))
    return GuestArrived(guest=guest)


def event_of(rng: Random, number: int, engine: Engine) -> Event:
    """Return some event that may happen now."""
    uid, name, space = rng.choice([*engine.guests(), "secret-nobody"]), rng.choice(HOSTS), rng.choice(SPACES)
    match rng.randrange(18):
        case 0:
            return HostChanged(host=machine(rng, name))
        case 1:
            return HostLeft(name=name, version=rng.randrange(2))
        case 2 | 3:
            return GuestLeft(uid=uid)
        case 4:
            if uid not in engine.state.guests:
                return EvictFailed(uid=uid, reason="secret reasons")
            known = engine.state.guests[uid].guest
            return GuestChanged(guest=msgspec.structs.replace(known, version=known.version + 1, spec=wishes(rng)))
        case 5:
            return NamespaceChanged(name=space, labels=rng.choice([(), labels({"secret-team": "secret-red"})]))
        case 6:
            budget = Budget(name="secret-budget", namespace=space, version=number, selector=chosen(rng), allowed=1)
            return BudgetChanged(budget=budget) if rng.random() < 0.7 else BudgetLeft(key=budget.key)
        case 7:
            gang = Gang(name="secret-gang", namespace="secret-space", version=number, topology=rng.choice(TOPOLOGIES))
            return GangChanged(gang=gang) if rng.random() < 0.7 else GangLeft(key=gang.key)
        case 8:
            return QuotasChanged(quotas=(Quota(tenant="secret-tenant", version=number, max=amounts({"cpu": 9})),))
        case 9:
            kept = Reservation(
                name="secret-room", version=number, amounts=amounts({"cpu": 1}), tenant="secret-tenant", until=SECOND
            )
            return ReservationChanged(reservation=kept) if rng.random() < 0.7 else ReservationLeft(name=kept.name)
        case _:
            return arrival(rng, number)


def recorded(rng: Random) -> Journal:
    lines: list[bytes] = []
    recorder = Recorder(Engine(POLICIES, seed=rng.randrange(99)), lines.append)
    recorder.apply(HostsJoined(hosts=tuple(machine(rng, name) for name in HOSTS)))
    rotate_at = rng.randrange(60)
    for number in range(1, 30):
        with suppress(FactError):  # kinds of events that this engine does not take are not in its journals
            recorder.apply(event_of(rng, number, recorder.engine))
        if rng.random() < 0.5:
            recorder.step(recorder.engine.now + rng.randrange(3) * SECOND)
        if number == rotate_at:
            lines.clear()
            recorder.rotate(lines.append)
    recorder.step(recorder.engine.now + 1000 * SECOND)
    return read_journal(lines)


@given(rng=st.randoms(use_true_random=False))
@settings(QUICK, max_examples=60)
def test_a_redacted_run_of_guests_that_look_at_each_other_decides_the_same(rng):
    journal = recorded(rng)
    assume(replay(journal).difference is None)  # whether an engine repeats itself is shown elsewhere
    found = redact(journal)
    text = raw_text(found)
    assert not [name for name in (b"secret", b"10.5.5.5", b"10.6.6.6", b"apple") if name in text]
    assert replay(found).difference is None
    for one, other in zip(journal.entries, found.entries, strict=True):
        if isinstance(one, StepEntry) and isinstance(other, StepEntry):
            for mine, its in zip(one.actions, other.actions, strict=True):
                assert (type(mine), mine.seq) == (type(its), its.seq)
                if isinstance(mine, Defer) and isinstance(its, Defer):
                    assert refusals(mine) == refusals(its)
    assert replay(redact(found)).difference is None


def refusals(hold: Defer) -> Counter[tuple[str, str]]:
    """Count the hosts by plugin and code."""
    counts: Counter[tuple[str, str]] = Counter()
    for count in hold.reasons:
        counts[count.reason.plugin, count.reason.code] += count.hosts
    return counts
