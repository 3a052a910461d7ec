"""Typical pods by configuration."""

from __future__ import annotations

from hostler.engine import typical_mix
from hostler.model import DeviceRequest, GuestSpec, amounts
from hostler.sim.simon.cluster_config import TypicalPodsConfig
from hostler.sim.simon.experiment import typical_pods
from hostler.sim.traces.openb import read_pods


def _spec(cpu: int, milli: int = 0, count: int = 1) -> GuestSpec:
    return GuestSpec(requests=amounts({"cpu": cpu}), devices=(DeviceRequest("gpu", count, milli),) if milli else ())


# Ten pods: four shares, three whole gpus, two without, one of eight.
PODS = [*[_spec(1000, 500)] * 4, *[_spec(2000, 1000)] * 3, *[_spec(4000)] * 2, _spec(8000, 1000, 8)]


def _chosen(**rule: object) -> list[tuple[int, float]]:
    return [(entry.cpu_millis, round(entry.share, 6)) for entry in typical_pods(PODS, TypicalPodsConfig(**rule))]


def test_published_settings_give_the_mix_of_the_engine_to_the_last_bit():
    _, specs = read_pods("default")
    rule = TypicalPodsConfig(is_involved_cpu_pods=True, pod_popularity_threshold=95, pod_increase_step=1)
    assert typical_pods(specs, rule) == typical_mix(specs)


def test_the_most_common_come_first_until_they_cover_enough():
    assert _chosen(is_involved_cpu_pods=True, pod_popularity_threshold=70, pod_increase_step=1) == [
        (1000, round(4 / 7, 6)),
        (2000, round(3 / 7, 6)),
    ]


def test_cpu_only_pods_are_left_out_unless_wanted():
    assert [cpu for cpu, _ in _chosen(pod_popularity_threshold=100, pod_increase_step=1)] == [1000, 2000, 8000]


def test_steps_may_take_more_than_is_needed():
    assert len(_chosen(is_involved_cpu_pods=True, pod_popularity_threshold=10, pod_increase_step=3)) == 3


def test_defaults_are_sixty_percent_in_steps_of_ten():
    assert _chosen() == _chosen(pod_popularity_threshold=0, pod_increase_step=0)
    assert len(_chosen()) == 3


def test_whole_gpus_weigh_more_where_that_is_asked_for():
    # 4 shares of weight 1, 3 single gpus of weight 3, one of eight of weight 17.
    assert _chosen(pod_popularity_threshold=100, pod_increase_step=1, gpu_res_weight=2.0) == [
        (8000, round(17 / 30, 6)),
        (2000, round(9 / 30, 6)),
        (1000, round(4 / 30, 6)),
    ]
