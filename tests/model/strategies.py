"""Random model values that a fleet file can hold, for the tests of the model and of the configuration."""

from __future__ import annotations

from hypothesis import strategies as st

from hostler.model import (
    MAX_AMOUNT,
    Device,
    DeviceRequest,
    Expression,
    Guest,
    GuestSpec,
    Host,
    Taint,
    Term,
    Toleration,
    WeightedTerm,
    amounts,
)

# Names that YAML would take for something else, beside ordinary ones.
TRICKY_NAMES = [
    "1",
    "0777",
    "1e3",
    "12e5678",
    "1e-3",
    "true",
    "no",
    "null",
    "~",
    "<<",
    "-",
    "2024-01-01",
    "a:b",
    "#",
    ".5",
    "é",
]

printable = st.characters(exclude_categories=["Cs", "Cc", "Cf", "Co", "Cn", "Zs", "Zl", "Zp"])
names = st.sampled_from(TRICKY_NAMES) | st.text(printable, min_size=1, max_size=12)
texts = st.sampled_from(TRICKY_NAMES) | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
label_maps = st.dictionaries(st.text(min_size=1, max_size=8).filter(lambda t: t.isprintable()), texts, max_size=3)
labels = label_maps.map(lambda values: tuple(sorted(values.items())))
resources = st.sampled_from(["cpu", "memory", "storage", "guests", "hugepages-2Mi", "example.com/fpga"])
quantities = st.one_of(st.integers(0, MAX_AMOUNT), st.integers(0, 5000), st.integers(0, 4096).map(lambda n: n << 20))
amount_maps = st.dictionaries(resources, quantities, max_size=4)
sizes = amount_maps.map(amounts)
reserves = amount_maps.map(lambda values: tuple(sorted(values.items())))
ratios = st.dictionaries(resources, st.integers(1, 5_000_000), max_size=2).map(lambda v: tuple(sorted(v.items())))
effects = st.sampled_from(["NoSchedule", "PreferNoSchedule", "NoExecute"])
taints = st.builds(Taint, names, texts, effects)
values = st.lists(texts, min_size=1, max_size=3).map(tuple)
integers_as_text = st.integers(-(10**17), 10**17).map(lambda n: (str(n),))
expressions = st.one_of(
    st.builds(Expression, names, st.sampled_from(["In", "NotIn"]), values),
    st.builds(Expression, names, st.sampled_from(["Exists", "DoesNotExist"])),
    st.builds(Expression, names, st.sampled_from(["Gt", "Lt"]), integers_as_text),
)
host_names = st.builds(
    Expression,
    st.just("metadata.name"),
    st.sampled_from(["In", "NotIn"]),
    st.lists(names, min_size=1, max_size=3).map(tuple),
)
terms = st.builds(
    Term, st.lists(expressions, max_size=2).map(tuple), st.lists(host_names, max_size=2).map(tuple)
).filter(lambda term: bool(term.expressions or term.names))
tolerations = st.one_of(
    st.builds(Toleration, names, st.just("Equal"), texts, effects | st.just("")),
    st.builds(Toleration, names | st.just(""), st.just("Exists"), st.just(""), effects | st.just("")),
)
millis = st.integers(1, 1000)
devices = st.builds(Device, names, texts, millis)
device_lists = st.lists(st.tuples(devices, st.integers(1, 20)), max_size=3).map(
    lambda groups: tuple(device for device, count in groups for _ in range(count))
)
int32 = st.integers(-(2**31), 2**31 - 1)


@st.composite
def hosts(draw: st.DrawFn) -> Host:
    name = draw(names)
    return Host(
        name=name,
        uid=draw(st.just(name) | texts.filter(bool)),
        version=draw(st.integers(0, 2**63 - 1)),
        capacity=draw(st.dictionaries(resources, st.integers(0, MAX_AMOUNT // 8), max_size=4).map(amounts)),
        devices=draw(device_lists),
        labels=draw(labels),
        taints=draw(st.lists(taints, max_size=2).map(tuple)),
        cordoned=draw(st.booleans()),
        overcommit=draw(ratios),
        reserve=draw(reserves),
        rank=draw(int32),
        draw_key=draw(st.none() | st.integers(1, 2**62)),
    )


specs = st.builds(
    GuestSpec,
    requests=sizes,
    scored_requests=sizes,
    devices=st.lists(
        st.builds(DeviceRequest, names, st.integers(1, 32), millis, st.lists(texts, max_size=2).map(tuple)),
        max_size=2,
    ).map(tuple),
    priority=int32,
    policy=texts,
    host_name=texts,
    host_selector=labels,
    host_affinity=st.lists(terms, max_size=2).map(tuple),
    preferred_hosts=st.lists(st.builds(WeightedTerm, st.integers(1, 100), terms), max_size=2).map(tuple),
    tolerations=st.lists(tolerations, max_size=2).map(tuple),
    namespace=names.filter(lambda name: "/" not in name),
    labels=labels,
    prepare=st.lists(texts, max_size=2).map(tuple),
)


@st.composite
def guests(draw: st.DrawFn) -> Guest:
    name, spec = draw(names), draw(specs)
    return Guest(
        name=name,
        uid=draw(st.just(f"{spec.namespace}/{name}") | texts.filter(bool)),
        version=draw(st.integers(0, 2**63 - 1)),
        spec=spec,
        host=draw(texts),
        draw_key=draw(st.none() | st.integers(0, 2**64 - 1)),
    )
