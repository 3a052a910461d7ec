"""The configuration file, policies in files, durations, and which value wins."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.config import (
    Settings,
    format_duration,
    json_schema,
    load_settings,
    parse_documents,
    parse_duration,
    prefer_fleet_policy,
    read_settings,
    write_policy,
    write_yaml,
)
from hostler.errors import DuplicateNameError, HostlerError, InputError, QuantityError, UnknownNameError
from hostler.model import (
    MAX_AMOUNT,
    AskUse,
    MixEntry,
    PluginUse,
    Policy,
    PreemptionRules,
    QueueRules,
    ScorerUse,
)
from hostler.model.policies import DEFAULT_FILTERS
from tests.model.strategies import TRICKY_NAMES, names, ratios, sizes, texts

HEAD = "apiVersion: hostler/v1\nkind: Config\n"
BUILTIN = {
    "spread": Policy(name="spread", summary="even", scorers=(ScorerUse("least_allocated"),), ties=("rank",)),
    "pack": Policy(name="pack", scorers=(ScorerUse("most_allocated"),)),
}


def _settings(body: str) -> Settings:
    return read_settings(parse_documents((HEAD + body).encode(), "config.yaml")[0], BUILTIN)


FULL = """\
default_policy: mine
policies:
- name: mine
  extends: spread
  scorers:
  - name: least_allocated
    weight: 3
    args: {resources: [cpu, memory], alpha: 0.5}
  - balanced
- name: other
  extends: mine
  summary: for GPUs
  filters: [quiet_hours, {name: taints, args: {b: 1, a: {d: 1, c: 2}}}]
  without: [host_name]
  ties: [fewer_guests, name]
  devices: fgd
  overcommit: {cpu: 1.5}
  reserve: {memory: 1Gi, cpu: 0}
  one_guest_per_host: true
  preemption: {budgets: strict, max_evictions: 5, window: 1m, wait: 30s, max_repeats: 1, max_cascade: 0}
  reclaim: true
  ask: {name: oracle, timeout: 250ms, weight: -2, ignorable: true, always: true}
  mix:
  - {cpu: 500m, device_millis: 500, device_count: 1, models: [T4], share: 0.25}
  - {cpu: 2}
queue: {backoff_initial: 500ms, backoff_max: 1m, jitter_percent: 0, flush_after: 1h30m, prepare_timeout: 90s}
"""


def test_policy_takes_what_it_does_not_say_from_the_one_it_extends():
    mine, other = _settings(FULL).policies
    assert mine == Policy(
        name="mine",
        summary="even",
        scorers=(
            ScorerUse("least_allocated", 3, '{"alpha":0.5,"resources":["cpu","memory"]}'),
            ScorerUse("balanced"),
        ),
        ties=("rank",),
    )
    assert other == Policy(
        name="other",
        summary="for GPUs",
        filters=(
            *(PluginUse(name) for name in DEFAULT_FILTERS if name not in ("host_name", "taints")),
            PluginUse("quiet_hours"),
            PluginUse("taints", '{"a":{"c":2,"d":1},"b":1}'),
        ),
        scorers=mine.scorers,
        ties=("fewer_guests", "name"),
        devices="fgd",
        overcommit=(("cpu", 1_500_000),),
        reserve=(("memory", 1 << 30),),
        one_guest_per_host=True,
        preemption=PreemptionRules("strict", 5, 60 * 10**9, 30 * 10**9, 1, 0),
        reclaim=True,
        ask=AskUse("oracle", 250_000_000, -2, ignorable=True, always=True),
        mix=(MixEntry(500, 500, 1, ("T4",), 0.25), MixEntry(2000)),
    )


def test_queue_rules_are_read_in_nanoseconds():
    assert _settings(FULL).queue == QueueRules(
        backoff_initial_ns=500_000_000,
        backoff_max_ns=60_000_000_000,
        jitter_percent=0,
        flush_after_ns=5_400_000_000_000,
        prepare_timeout_ns=90_000_000_000,
    )


def test_what_is_left_out_of_the_queue_keeps_its_default():
    assert _settings("queue: {backoff_max: 20s}").queue == QueueRules(backoff_max_ns=20_000_000_000)
    assert _settings("").queue == QueueRules()


def test_preemption_may_be_switched_on_with_the_usual_rules_and_off_again():
    body = "policies: [{name: a, preemption: {}}, {name: b, extends: a}, {name: c, extends: a, preemption: null}]"
    assert [policy.preemption for policy in _settings(body).policies] == [PreemptionRules(), PreemptionRules(), None]


def test_ask_may_be_switched_off_again():
    body = "policies: [{name: a, ask: {name: o}}, {name: b, extends: a, ask: null}]"
    assert [policy.ask for policy in _settings(body).policies] == [AskUse("o"), None]


@pytest.mark.parametrize(
    ("body", "kind", "message", "hint"),
    [
        pytest.param("polices: []", InputError, "config.yaml:3: unknown key 'polices'", "'policies'", id="key"),
        pytest.param(
            "policies:\n- name: a\n  extends: spred\n",
            UnknownNameError,
            "config.yaml:5: policy 'a' extends 'spred'",
            "did you mean 'spread'?",
            id="extends-typo",
        ),
        pytest.param(
            "policies: [{name: a, extends: b}, {name: b}]",
            UnknownNameError,
            "extends 'b'",
            "",
            id="extends-later",
        ),
        pytest.param("policies: [{name: a, extends: a}]", UnknownNameError, "extends 'a'", "", id="extends-itself"),
        pytest.param(
            "policies: [{name: spread}]",
            DuplicateNameError,
            "'spread' is already known",
            "extends",
            id="builtin",
        ),
        pytest.param("policies: [{name: a}, {name: a}]", DuplicateNameError, "declared twice", "", id="twice"),
        pytest.param("policies: [{name: ''}]", InputError, "policies[0].name is empty", "", id="no-name"),
        pytest.param("policies: [{name: a, ties: [nam]}]", InputError, "ties[0] is 'nam'", "fewer_guests", id="tie"),
        pytest.param("policies: [{name: a, ties: []}]", InputError, "ties is empty", "name", id="no-ties"),
        pytest.param("policies: [{name: a, devices: first}]", InputError, "devices is 'first'", "lowest", id="devices"),
        pytest.param(
            "policies: [{name: a, scorers: [{name: s, wieght: 1}]}]",
            InputError,
            "unknown key 'wieght' in policies[0].scorers[0]",
            "'weight'",
            id="scorer-key",
        ),
        pytest.param("policies: [{name: a, scorers: [5]}]", InputError, "scorers[0] must be", "", id="scorer-type"),
        pytest.param(
            "policies: [{name: a, scorers: [{name: s, args: {x: .nan}}]}]",
            InputError,
            "scorers[0].args has a number that is not finite",
            "",
            id="args-nan",
        ),
        pytest.param(
            "policies: [{name: a, overcommit: {cpu: -1}}]",
            QuantityError,
            "policies[0].overcommit.cpu",
            "",
            id="ratio",
        ),
        pytest.param("policies: [{name: a, reserve: {cpu: x}}]", QuantityError, "reserve.cpu", "", id="reserve"),
        pytest.param("policies: [{name: a, ask: {name: o, timeout: 5}}]", InputError, "must be a string", "", id="5"),
        pytest.param("policies: [{name: a, ask: {name: o, timeout: 5x}}]", QuantityError, "ask.timeout", "", id="5x"),
        pytest.param("policies: [{name: a, ask: {name: o, timeout: 0s}}]", InputError, "is zero", "", id="no-time"),
        pytest.param(
            "policies: [{name: a, preemption: {budget: strict}}]",
            InputError,
            "unknown key 'budget' in policies[0].preemption",
            "'budgets'",
            id="preemption-key",
        ),
        pytest.param(
            "policies: [{name: a, preemption: {budgets: lax}}]", InputError, "budgets is 'lax'", "strict", id="budgets"
        ),
        pytest.param("policies: [{name: a, preemption: true}]", InputError, "preemption must be", "", id="preemption"),
        pytest.param(
            "policies: [{name: a, preemption: {wait: 0s}}]", InputError, "wait is zero", "some time", id="no-wait"
        ),
        pytest.param(
            "policies: [{name: a, preemption: {window: 5}}]",
            InputError,
            "window must be a string",
            "quotes",
            id="window",
        ),
        pytest.param(
            "policies: [{name: a, one_guest_per_host: 1}]", InputError, "must be true or false", "", id="one-guest"
        ),
        pytest.param("policies: [{name: a, mix: [{cpu: -1}]}]", QuantityError, "mix[0].cpu", "", id="mix-cpu"),
        pytest.param("policies: [{name: a, mix: [{cpu: 1, share: .inf}]}]", InputError, "mix[0].share", "", id="inf"),
        pytest.param("policies: [{name: a, mix: [{cpu: 1, share: .nan}]}]", InputError, "mix[0].share", "", id="nan"),
        pytest.param("policies: [{name: a, mix: [{cpu: 1, share: -1}]}]", InputError, "mix[0].share", "", id="minus"),
        pytest.param("queue: {backoff_max: 5}", InputError, "queue.backoff_max must be a string", "quotes", id="bare"),
        pytest.param("queue: {backoff_max: 0s}", InputError, "queue.backoff_max is zero", "", id="zero"),
        pytest.param("queue: {backoff_max: soon}", QuantityError, "queue.backoff_max: 'soon'", "500ms", id="word"),
        pytest.param(
            "queue: {backoff_initial: 1m}",
            InputError,
            "backoff_initial 1m above backoff_max 10s",
            "",
            id="order",
        ),
        pytest.param("queue: {jitter_percent: 101}", InputError, "jitter_percent must be", "", id="jitter"),
        pytest.param(
            "default_policy: sprad",
            UnknownNameError,
            "config.yaml:3: policy 'sprad'",
            "'spread'",
            id="default",
        ),
    ],
)
def test_bad_configuration_names_file_and_line(body, kind, message, hint):
    with pytest.raises(HostlerError) as caught:
        _settings(body)
    assert type(caught.value) is kind
    assert message in str(caught.value)
    assert str(caught.value).startswith("config.yaml:")
    assert hint in caught.value.hint


# ------------------------------------------------------------------------------------------- precedence


@pytest.fixture
def empty_home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    return tmp_path


@pytest.mark.parametrize(
    ("in_file", "in_environment", "flag", "policy", "origin"),
    [
        pytest.param(False, "", "", "spread", "default", id="default"),
        pytest.param(True, "", "", "pack", "{path}:3", id="file-beats-default"),
        pytest.param(True, "spread", "", "spread", "HOSTLER_POLICY", id="environment-beats-file"),
        pytest.param(True, "spread", "pack", "pack", "--policy", id="flag-beats-environment"),
        pytest.param(False, "", "pack", "pack", "--policy", id="flag-beats-default"),
    ],
)
def test_the_nearest_word_wins_and_is_named(empty_home, in_file, in_environment, flag, policy, origin):
    path = empty_home / "c.yaml"
    path.write_text(HEAD + ("default_policy: pack\n" if in_file else ""))
    environ = {"HOSTLER_CONFIG": str(path), "HOSTLER_POLICY": in_environment}
    settings = load_settings(BUILTIN, policy=flag, environ=environ)
    shown = {one.name: one for one in settings.shown}
    assert settings.default_policy == policy
    assert shown["default_policy"].value == policy
    assert shown["default_policy"].origin == origin.format(path=path)
    assert (shown["config"].value, shown["config"].origin) == (str(path), "HOSTLER_CONFIG")


def test_config_flag_beats_the_variable(empty_home):
    (empty_home / "flag.yaml").write_text(HEAD + "queue: {backoff_max: 20s}\n")
    settings = load_settings(BUILTIN, config=str(empty_home / "flag.yaml"), environ={"HOSTLER_CONFIG": "no/such/file"})
    shown = {one.name: (one.value, one.origin) for one in settings.shown}
    assert shown["config"] == (str(empty_home / "flag.yaml"), "--config")
    assert shown["queue.backoff_max"] == ("20s", f"{empty_home / 'flag.yaml'}:3")
    assert shown["queue.backoff_initial"] == ("1s", "default")


def test_usual_file_is_read_when_nobody_names_one(empty_home):
    folder = empty_home / "xdg" / "hostler"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(HEAD + "default_policy: pack\n")
    assert load_settings(BUILTIN, environ={}).default_policy == "pack"


def test_without_any_file_everything_is_default(empty_home):
    settings = load_settings(BUILTIN, environ={})
    assert settings.queue == QueueRules()
    assert {one.origin for one in settings.shown} == {"default"}
    assert [one.name for one in settings.shown][:2] == ["config", "default_policy"]


@pytest.mark.parametrize(
    ("arguments", "environ", "message"),
    [
        pytest.param({"policy": "sprad"}, {}, "--policy: policy 'sprad' is not known", id="flag"),
        pytest.param({}, {"HOSTLER_POLICY": "sprad"}, "HOSTLER_POLICY: policy 'sprad'", id="environment"),
        pytest.param({"config": "no/such.yaml"}, {}, "no/such.yaml: cannot be read", id="config-flag"),
        pytest.param({}, {"HOSTLER_CONFIG": "no/such.yaml"}, "no/such.yaml: cannot be read", id="config-variable"),
    ],
)
def test_wrong_flag_or_variable_is_named(empty_home, arguments, environ, message):
    with pytest.raises(InputError, match=message) as caught:
        load_settings(BUILTIN, environ=environ, **arguments)
    assert caught.value.hint


def test_configuration_of_two_documents_is_refused(empty_home):
    path = empty_home / "c.yaml"
    path.write_text(HEAD + "---\n" + HEAD)
    with pytest.raises(InputError, match="has 2 documents"):
        load_settings(BUILTIN, config=str(path), environ={})


@pytest.mark.parametrize(
    ("flag", "fleet", "policy"),
    [
        pytest.param("", "pack", "pack", id="fleet-beats-configuration"),
        pytest.param("spread", "pack", "spread", id="flag-beats-fleet"),
        pytest.param("", "", "spread", id="fleet-says-nothing"),
    ],
)
def test_policy_of_the_fleet_stands_between_flag_and_configuration(empty_home, flag, fleet, policy):
    settings = prefer_fleet_policy(load_settings(BUILTIN, policy=flag, environ={}), fleet, "fleet.yaml")
    assert settings.default_policy == policy
    assert next(one.value for one in settings.shown if one.name == "default_policy") == policy


# ------------------------------------------------------------------------- durations, writing, the schema


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        pytest.param("1s", 10**9, id="second"),
        pytest.param("500ms", 5 * 10**8, id="milliseconds"),
        pytest.param("5m", 300 * 10**9, id="minutes"),
        pytest.param("1h30m", 5400 * 10**9, id="hours-and-minutes"),
        pytest.param("0.5s", 5 * 10**8, id="fraction"),
        pytest.param("7us", 7000, id="microseconds"),
        pytest.param("3ns", 3, id="nanoseconds"),
        pytest.param("0", 0, id="zero"),
    ],
)
def test_duration_is_read_in_nanoseconds(text, nanoseconds):
    assert parse_duration(text) == nanoseconds


@pytest.mark.parametrize("bad", ["", "5", "s", "-1s", "1 s", "1S", "1e3s", "0.5ns", "1d", "99999999999h", "1s" * 9999])
def test_what_is_no_duration_is_refused(bad):
    with pytest.raises(QuantityError) as caught:
        parse_duration(bad)
    assert caught.value.hint


@given(st.integers(0, MAX_AMOUNT - 1))
def test_written_duration_reads_back_the_same(nanoseconds):
    assert parse_duration(format_duration(nanoseconds)) == nanoseconds


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda children: st.lists(children, max_size=2) | st.dictionaries(texts, children, max_size=2),
    max_leaves=5,
)
args = st.dictionaries(texts, json_values, max_size=2).map(
    lambda value: json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False) if value else ""
)
policies = st.builds(
    Policy,
    name=names.filter(lambda name: name not in BUILTIN),
    summary=texts,
    filters=st.lists(st.builds(PluginUse, names, args), max_size=2, unique_by=lambda use: use.name).map(
        lambda own: (PluginUse("devices"), *own, PluginUse("resources"))
    ),
    scorers=st.lists(st.builds(ScorerUse, names, st.integers(-9, 9), args, texts), max_size=2).map(tuple),
    ties=st.lists(st.sampled_from(["rank", "name", "random"]), min_size=1, max_size=2).map(tuple),
    devices=st.sampled_from(["lowest", "fgd"]),
    overcommit=ratios,
    reserve=sizes,
    one_guest_per_host=st.booleans(),
    preemption=st.none()
    | st.builds(
        PreemptionRules,
        st.sampled_from(["best_effort", "strict"]),
        *(st.integers(least, most) for least, most in ((0, 1000), (1, 10**12), (1, 10**12), (0, 5), (0, 5))),
    ),
    reclaim=st.booleans(),
    ask=st.none() | st.builds(AskUse, names, st.integers(1, 10**12), st.integers(-9, 9), st.booleans()),
    mix=st.lists(
        st.builds(
            MixEntry,
            st.integers(0, 10**6),
            st.integers(0, 1000),
            st.integers(0, 8),
            st.lists(st.sampled_from(TRICKY_NAMES), max_size=2).map(tuple),
            st.floats(0, 1),
        ),
        max_size=2,
    ).map(tuple),
)


@given(policies)
def test_written_policy_reads_back_the_same(policy):
    body = write_yaml({"policies": [write_policy(policy)]})
    assert _settings(body).policies == (policy,)


def test_equal_arguments_in_another_order_are_the_same_policy():
    one = "policies: [{name: p, scorers: [{name: s, args: {a: 1, b: {d: 2, c: 3}}}]}]"
    two = "policies: [{name: p, scorers: [{name: s, args: {b: {c: 3, d: 2}, a: 1}}]}]"
    assert _settings(one).policies == _settings(two).policies


def test_schema_knows_every_key_of_both_kinds_and_no_other():
    schema = msgspec.json.decode(msgspec.json.encode(json_schema()))
    parts = schema["$defs"]
    assert [ref["$ref"] for ref in schema["oneOf"]] == ["#/$defs/FleetFile", "#/$defs/ConfigFile"]
    assert set(parts["ConfigFile"]["properties"]) == {
        "apiVersion",
        "kind",
        "policies",
        "default_policy",
        "queue",
    }
    assert {"capacity", "count", "overcommit"} <= set(parts["HostEntry"]["properties"])
    assert all(part["additionalProperties"] is False for part in parts.values())
    assert all("description" in part for part in parts.values())


def test_settings_do_not_read_the_real_environment_when_one_is_given(empty_home, monkeypatch):
    monkeypatch.setenv("HOSTLER_POLICY", "pack")
    monkeypatch.chdir(Path(empty_home))
    assert load_settings(BUILTIN, environ={}).default_policy == "spread"
    assert load_settings(BUILTIN).default_policy == "pack"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        pytest.param("resources", "guests are always checked for room", id="room is always checked"),
        pytest.param("taint", "did you mean 'taints'?", id="a filter that is not there"),
    ],
)
def test_filters_that_cannot_be_left_out_are_named(name, hint):
    with pytest.raises(InputError, match="without") as caught:
        _settings(f"policies: [{{name: p, without: [{name}]}}]\n")
    assert caught.value.hint == hint
