"""Messages about a configuration that was read again."""

from msgspec.structs import replace

from hostler.kube.configuration import default_settings
from hostler.kube.scheduler.changes import Changes, changes_between
from hostler.kube.settings import ApiLimits, Election, ExtenderSettings, SchedulerProfile
from hostler.model import QueueRules

OLD = default_settings("ours", "kubernetes")


def test_equal_settings_have_no_changes():
    again = default_settings("ours", "kubernetes")
    assert changes_between(OLD, again) == Changes([], [])


def test_profiles_that_come_go_and_change_are_named():
    two = replace(OLD, profiles=(SchedulerProfile("ours", "pack"), SchedulerProfile("other", "kubernetes")))
    assert changes_between(OLD, two).at_once == [
        "pods of other are now placed by kubernetes",
        "pods of ours are now placed by pack, not by kubernetes",
    ]
    assert "pods of other are no longer placed" in changes_between(two, OLD).at_once
    assert changes_between(OLD, two).later == []


def test_policies_that_changed_are_named_with_what_changed_in_them():
    (policy,) = OLD.policies
    new = replace(OLD, policies=(replace(policy, preemption=None), replace(policy, name="mine")))
    assert changes_between(OLD, new).at_once == ["policy mine is new", "policy kubernetes changed: preemption"]


def test_what_the_file_says_of_all_policies_is_named_as_in_the_file():
    (policy,) = OLD.policies
    new = replace(OLD, policies=(replace(policy, one_guest_per_host=True),))
    assert changes_between(OLD, new).at_once == ["policy kubernetes changed: one_pod_per_node"]


def test_settings_that_need_a_restart_are_named_without_secrets():
    new = replace(
        OLD,
        limits=ApiLimits(max_in_flight=8),
        election=Election(lease_s=30.0, is_on=False),
        queue=QueueRules(backoff_max_ns=1_500_000_000),
        listen="",
        extenders=(ExtenderSettings(url_prefix="https://x", key_data="secret"),),
    )
    assert sorted(changes_between(OLD, new).later) == [
        "election.enabled: true became false",
        "election.lease: 15s became 30s",
        "extenders",
        "limits.max_in_flight: 64 became 8",
        "listen: 127.0.0.1:10359 became nothing",
        "queue.backoff_max: 10s became 1.5s",
    ]
