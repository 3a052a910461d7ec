"""Names and times of an election that cannot work are rejected, from every source."""

from __future__ import annotations

import random

import msgspec
import pytest

from hostler.config import parse_documents, write_yaml
from hostler.errors import HostlerError, InputError
from hostler.kube.api.client import KubeClient
from hostler.kube.configuration import default_settings, read_document
from hostler.kube.memory import ApiServer
from hostler.kube.memory.virtual_time import SimClock
from hostler.kube.scheduler.process import Scheduler
from hostler.kube.settings import ApiLimits, Election, ExtenderSettings, SchedulerSettings
from hostler.runtime.engine_thread import InlineExecutor

OURS = {"apiVersion": "hostler/v1", "kind": "Scheduler"}
THEIRS = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
KEYS = {
    "namespace": "resourceNamespace",
    "name": "resourceName",
    "lease": "leaseDuration",
    "renew": "renewDeadline",
    "retry": "retryPeriod",
}
WRONG = [
    {"lease": "87600h"},
    {"lease": "87600h", "renew": "87599h", "retry": "1h"},
    {"lease": "0s"},
    {"lease": "-15s"},
    {"lease": "900ms", "renew": "800ms", "retry": "200ms"},
    {"renew": "0s"},
    {"renew": "-1s"},
    {"renew": "15s"},
    {"renew": "1h"},
    {"retry": "0s"},
    {"retry": "-2s"},
    {"retry": "1ns"},
    {"retry": "9s"},
    {"retry": "1000h"},
    {"namespace": ""},
    {"namespace": "Kube-System"},
    {"namespace": "kube/system"},
    {"namespace": "a.b"},
    {"namespace": "a" * 64},
    {"name": ""},
    {"name": "../secrets"},
    {"name": "-a"},
    {"name": "a..b"},
    {"name": "a" * 254},
]


def _read(data: dict[str, object]) -> SchedulerSettings:
    return read_document(parse_documents(write_yaml(data).encode(), "file.yaml")[0])


def _scheduler(settings: SchedulerSettings) -> Scheduler:
    clock = SimClock()
    client = KubeClient(ApiServer(clock).transport("hostler"))
    return Scheduler(client, settings, clock=clock, executor=InlineExecutor(), identity="one", random=random.Random(1))


@pytest.mark.parametrize("wrong", WRONG, ids=str)
@pytest.mark.parametrize("kind", ["ours", "theirs"])
def test_unworkable_election_in_file_is_rejected_with_line_and_hint(kind, wrong):
    theirs = {**THEIRS, "leaderElection": {KEYS[key]: value for key, value in wrong.items()}}
    with pytest.raises(InputError) as caught:
        _read({**OURS, "election": wrong} if kind == "ours" else theirs)
    place = "election" if kind == "ours" else "leaderElection"
    assert caught.value.message.startswith("file.yaml:")
    assert place in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    "wrong",
    [
        Election(lease_s=10**9),
        Election(lease_s=float("inf")),
        Election(lease_s=float("nan")),
        Election(lease_s=-15.0),
        Election(lease_s=0.0),
        Election(renew_s=-1.0),
        Election(renew_s=15.0),
        Election(retry_s=0.0),
        Election(retry_s=9.0),
        Election(namespace="kube/system"),
        Election(name=""),
    ],
    ids=str,
)
def test_settings_with_an_election_that_cannot_work_make_no_scheduler(wrong):
    with pytest.raises(HostlerError) as caught:
        _scheduler(msgspec.structs.replace(default_settings(), election=wrong))
    assert caught.value.message.startswith("election")
    assert caught.value.hint


@pytest.mark.parametrize("seconds", [0.0, -1.0, 5.0, 60.0, float("nan")])
def test_settings_with_binds_that_outlive_a_lease_make_no_scheduler(seconds):
    settings = msgspec.structs.replace(default_settings(), limits=ApiLimits(bind_timeout_s=seconds))
    with pytest.raises(InputError, match="outlive"):
        _scheduler(settings)


def test_extender_whose_binds_outlive_the_lease_makes_no_scheduler():
    binder = ExtenderSettings(url_prefix="http://extender", bind_verb="bind", timeout_s=5.0)
    settings = msgspec.structs.replace(default_settings(), extenders=(binder,))
    with pytest.raises(InputError, match=r"http://extender.*outlive"):
        _scheduler(settings)
    without = msgspec.structs.replace(settings, election=Election(is_on=False))
    assert _scheduler(without).settings.longest_bind_s == 5.0


@pytest.mark.parametrize("kind", ["ours", "theirs"])
def test_file_with_extender_binds_longer_than_the_lease_is_rejected(kind):
    with pytest.raises(InputError, match=r"extenders\[0\].*lease minus the renewal deadline") as caught:
        _read(_with_extender(kind, bind=True, timeout="30s"))
    assert "less than 5s" in caught.value.hint


@pytest.mark.parametrize("kind", ["ours", "theirs"])
def test_binding_extender_gets_a_default_timeout_within_the_lease(kind):
    found = _read(_with_extender(kind, bind=True))
    assert found.longest_bind_s == found.extenders[0].timeout_s == 4.0
    assert _read(_with_extender(kind, bind=False)).extenders[0].timeout_s == 5.0


@pytest.mark.parametrize("kind", ["ours", "theirs"])
def test_an_extender_that_only_filters_may_take_its_time(kind):
    assert _read(_with_extender(kind, bind=False, timeout="30s")).extenders[0].timeout_s == 30.0


def _with_extender(kind: str, *, bind: bool, timeout: str = "") -> dict[str, object]:
    verbs = {"url_prefix": "urlPrefix", "filter_verb": "filterVerb", "bind_verb": "bindVerb", "timeout": "httpTimeout"}
    given = {"url_prefix": "http://extender", "filter_verb": "filter"}
    given |= {"bind_verb": "bind"} if bind else {}
    given |= {"timeout": timeout} if timeout else {}
    if kind == "ours":
        return {**OURS, "extenders": [given]}
    return {**THEIRS, "extenders": [{verbs[key]: value for key, value in given.items()}]}
