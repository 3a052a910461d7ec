"""Guests become pods again: what is read back is what was written."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.errors import InputError
from hostler.manifests import Pod, guest_to_pod, pod_to_guest
from hostler.model import (
    DeviceRequest,
    Expression,
    Guest,
    GuestSpec,
    GuestTerm,
    HostPort,
    Selector,
    Spread,
    Term,
    Toleration,
    WeightedGuestTerm,
    WeightedTerm,
)
from tests.manifests.samples import container, guest_of, pod
from tests.random_examples import count_examples


def spec_written(guest) -> dict:
    """The spec of the pod that a guest becomes."""
    spec = guest_to_pod(guest)["spec"]
    assert isinstance(spec, dict)
    return spec


words = st.text("abcxyz0", min_size=1, max_size=5)
label_maps = st.dictionaries(words, words, max_size=3).map(lambda d: tuple(sorted(d.items())))
integers = st.integers(-99, 99).map(str)
label_expressions = st.one_of(
    st.builds(Expression, words, st.sampled_from(["Exists", "DoesNotExist"])),
    st.builds(
        Expression,
        words,
        st.sampled_from(["In", "NotIn"]),
        st.lists(words, min_size=1, max_size=3).map(tuple),
    ),
)
expressions = label_expressions | st.builds(Expression, words, st.sampled_from(["Gt", "Lt"]), st.tuples(integers))
name_expressions = st.builds(Expression, st.just("metadata.name"), st.sampled_from(["In", "NotIn"]), st.tuples(words))
terms = st.builds(
    Term,
    st.lists(expressions, min_size=1, max_size=2).map(tuple),
    st.lists(name_expressions, max_size=1).map(tuple),
)
effects = st.sampled_from(["", "NoSchedule", "PreferNoSchedule", "NoExecute"])
tolerations = st.one_of(
    st.builds(Toleration, words, st.just("Equal"), words | st.just(""), effects),
    st.builds(Toleration, words | st.just(""), st.just("Exists"), st.just(""), effects),
)
selectors = st.builds(Selector, st.lists(label_expressions, max_size=2).map(tuple))
maybe_selectors = st.none() | selectors
guest_term = st.builds(
    GuestTerm, words, maybe_selectors, st.lists(words, max_size=2, unique=True).map(tuple), maybe_selectors
)
guest_terms = st.lists(guest_term, max_size=2).map(tuple)
weighted_guest_terms = st.lists(st.builds(WeightedGuestTerm, st.integers(1, 100), guest_term), max_size=2).map(tuple)
spread = st.one_of(
    st.builds(
        Spread,
        words,
        st.integers(1, 9),
        maybe_selectors,
        st.just(True),
        st.integers(1, 9),
        st.booleans(),
        st.booleans(),
    ),
    st.builds(
        Spread, words, st.integers(1, 9), maybe_selectors, st.just(False), st.just(1), st.booleans(), st.booleans()
    ),
)
spreads = st.lists(spread, max_size=2, unique_by=lambda item: (item.topology, item.is_hard)).map(tuple)
port = st.builds(
    HostPort, st.integers(1, 65535), st.sampled_from(["TCP", "UDP", "SCTP"]), st.sampled_from(["", "10.0.0.1", "::"])
)
ports = st.lists(port, max_size=2, unique=True).map(tuple)
specs = st.builds(
    GuestSpec,
    requests=st.dictionaries(
        st.sampled_from(["cpu", "memory", "hugepages-2Mi", "ex.com/a"]), st.integers(1, 2**40), max_size=4
    ).map(lambda d: tuple(sorted(d.items()))),
    devices=st.lists(
        st.builds(
            DeviceRequest,
            st.just("gpu"),
            st.integers(1, 8),
            st.integers(1, 1000),
            st.lists(words, max_size=2).map(tuple),
        ),
        max_size=1,
    ).map(tuple),
    priority=st.integers(-(2**31), 2**31 - 1),
    host_selector=label_maps,
    host_affinity=st.lists(terms, max_size=2).map(tuple),
    preferred_hosts=st.lists(st.builds(WeightedTerm, st.integers(1, 100), terms), max_size=2).map(tuple),
    tolerations=st.lists(tolerations, max_size=2).map(tuple),
    namespace=words,
    labels=label_maps,
    affinity=guest_terms,
    anti_affinity=guest_terms,
    preferred_affinity=weighted_guest_terms,
    preferred_anti_affinity=weighted_guest_terms,
    spread=spreads,
    ports=ports,
    images=st.lists(words.map(lambda word: f"reg/{word}:1"), min_size=1, max_size=4).map(tuple),
    may_preempt=st.booleans(),
)


@st.composite
def guests(draw):
    spec = draw(specs)
    host = draw(words | st.just(""))
    wanted = sum(item.count for item in spec.devices)
    on_devices = draw(st.permutations(range(8)))[:wanted] if host else ()
    if host and draw(st.booleans()):
        spec = msgspec.structs.replace(spec, is_leaving=True)
    return Guest(
        name=draw(words),
        uid=draw(words),
        version=draw(st.integers(0, 2**40)),
        spec=spec,
        host=host,
        on_devices=tuple(on_devices),
        started=draw(st.integers(0, 2**62 // 1000 - 1)) * 1000,
        gang=draw(st.just("") | words.map(lambda name: f"{spec.namespace}/{name}")),
    )


@given(guests())
def test_guest_to_pod_to_guest_gives_the_same_guest(guest):
    written = msgspec.json.encode(guest_to_pod(guest))
    again, notes = pod_to_guest(msgspec.json.decode(written, type=Pod))
    assert again == guest
    assert notes == ()


# ------------------------------------------------------------------------------------------- containers

amounts = st.fixed_dictionaries(
    {},
    optional={"cpu": st.integers(0, 500).map(lambda n: f"{n}m"), "memory": st.integers(0, 500).map(lambda n: f"{n}Mi")},
)
containers = st.lists(amounts.map(lambda requests: container(**requests)), min_size=1, max_size=4)
init_containers = st.lists(
    st.builds(lambda requests, sidecar: container(sidecar=sidecar, **requests), amounts, st.booleans()), max_size=4
)


@settings(max_examples=count_examples(300))
@given(containers, init_containers, amounts)
def test_any_mix_of_containers_survives_a_round_trip(running, starting, overhead):
    guest = guest_of(pod("a", containers=running, initContainers=starting, overhead=overhead))
    again = guest_of(guest_to_pod(guest))
    assert again == guest
    assert again.spec.scored_requests == guest.spec.scored_requests


def test_each_image_becomes_a_container_and_the_first_has_requests():
    spec = GuestSpec(requests=(("cpu", 500), ("ex.com/a", 2)), images=("a:1", "b:2"), ports=(HostPort(80),))
    written = spec_written(Guest(name="g", spec=spec))["containers"]
    assert written == [
        {
            "name": "c0",
            "image": "a:1",
            "resources": {"requests": {"cpu": "500m", "ex.com/a": "2"}, "limits": {"ex.com/a": "2"}},
            "ports": [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}],
        },
        {"name": "c1", "image": "b:2", "resources": {"requests": {"cpu": "0", "memory": "0"}}},
    ]


def test_a_guest_without_images_becomes_a_pod_that_only_waits():
    written = spec_written(Guest(name="vm", spec=GuestSpec(requests=(("cpu", 500),))))["containers"]
    assert [(item["image"], item["resources"]["requests"]) for item in written] == [
        ("registry.k8s.io/pause:3.10", {"cpu": "500m"})
    ]


def test_a_score_that_no_pod_could_have_is_refused_and_not_spelt_out():
    guest = Guest(name="g", spec=GuestSpec(scored_requests=(("cpu", 2**60),)))
    with pytest.raises(InputError, match="guest 'g': it is scored by more cpu than"):
        guest_to_pod(guest)


# ------------------------------------------------------------------------------------- what has its own way


def test_the_only_host_that_will_do_becomes_a_field_selector():
    terms = (Term((Expression("a"),)), Term((Expression("b"),)))
    for affinity in ((), terms):
        guest = Guest(name="a", spec=GuestSpec(host_name="n1", host_affinity=affinity))
        written = guest_of(guest_to_pod(guest)).spec.host_affinity
        labels = (("a", ""), ("b", ""))
        assert any(term.matches("n1", labels) for term in written)
        assert not any(term.matches("n2", labels) for term in written)


INEXPRESSIBLE = {
    "another kind of device": (DeviceRequest("fpga"),),
    "two kinds of GPUs at once": (DeviceRequest("gpu", models=("A",)), DeviceRequest("gpu", models=("B",))),
    "a model with the sign that separates models": (DeviceRequest("gpu", models=("A|B",)),),
}


@pytest.mark.parametrize("devices", INEXPRESSIBLE.values(), ids=INEXPRESSIBLE.keys())
def test_devices_that_a_pod_cannot_ask_for_are_refused(devices):
    with pytest.raises(InputError, match="cannot be written as a Pod"):
        guest_to_pod(Guest(name="a", spec=GuestSpec(devices=devices)))


@pytest.mark.parametrize("needs", [("volume claims",), ("volume claims", "resource claims")], ids=["one", "two"])
def test_claims_that_are_known_by_their_presence_only_are_refused(needs):
    with pytest.raises(InputError, match=f"guest 'a': its {' and '.join(needs)} cannot be written as a Pod"):
        guest_to_pod(Guest(name="a", spec=GuestSpec(unsupported=needs)))


def test_a_gang_of_the_older_form_stays_in_its_label():
    data = pod("a", metadata={"labels": {"scheduling.x-k8s.io/pod-group": "g"}})
    assert "schedulingGroup" not in spec_written(guest_of(data))


@pytest.mark.parametrize("gang", ["other/g", "g", "default/"], ids=["another namespace", "no namespace", "no name"])
def test_a_gang_that_a_pod_cannot_name_is_refused(gang):
    with pytest.raises(InputError, match=f"its gang '{gang}' cannot be written as a Pod"):
        guest_to_pod(Guest(name="a", gang=gang))


def test_a_term_that_matches_nothing_goes_on_doing_so_when_a_host_is_fixed():
    guest = Guest(name="a", spec=GuestSpec(host_name="n1", host_affinity=(Term(),)))
    written = guest_of(guest_to_pod(guest)).spec.host_affinity
    assert not any(term.matches("n1", ()) for term in written)


def test_a_soft_spread_says_nothing_about_the_number_of_domains():
    spread = Spread("zone", is_hard=False, min_domains=3)
    written = spec_written(Guest(name="a", spec=GuestSpec(spread=(spread,))))["topologySpreadConstraints"]
    assert written == [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]
