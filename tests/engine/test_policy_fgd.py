"""Hand-computed tables for fgd: fragmentation, scores, devices, and the typical mix it measures by."""

from __future__ import annotations

import pytest

from hostler.engine import BUILT_IN, Engine, typical_mix
from hostler.errors import InputError
from hostler.model import DeviceRequest, MixEntry
from tests.engine.fleet import GIB, guest, kernel_fragment, place, policy, spec
from tests.engine.gpus import gpu_engine, gpu_host
from tests.engine.scores import raw_scores

WHOLE_GPU = MixEntry(cpu_millis=2000, device_millis=1000, device_count=1, share=1.0)

FRAGMENTS = [
    pytest.param([1000, 500], 2000, MixEntry(cpu_millis=2000, share=1.0), 1500.0, id="cpu only, satisfied: all idle"),
    pytest.param([1000, 500], 1999, MixEntry(cpu_millis=2000, share=1.0), 1500.0, id="cpu only, lacking: all idle"),
    pytest.param([1000, 500], 9000, MixEntry(cpu_millis=1, device_millis=100, device_count=1, models=("B",), share=1.0),
                 1500.0, id="no access to the model: all idle"),
    pytest.param([1000, 500], 2000, WHOLE_GPU, 500.0, id="satisfied: the devices that are too small"),
    pytest.param([1000, 1000], 2000, WHOLE_GPU, 0.0, id="satisfied: nothing is lost"),
    pytest.param([1000, 500], 1999, WHOLE_GPU, 1500.0, id="lacking cpu: all idle"),
    pytest.param([900, 500], 2000, WHOLE_GPU, 1400.0, id="lacking gpu: all idle"),
    pytest.param([900, 500], 1999, WHOLE_GPU, 1400.0, id="lacking both: all idle"),
    pytest.param([1000, 500, 499], 0, MixEntry(cpu_millis=0, device_millis=500, device_count=2, share=1.0), 499.0,
                 id="two shares of half a device"),
    pytest.param([1000, 500], 0, MixEntry(cpu_millis=0, device_millis=600, device_count=2, share=1.0), 1500.0,
                 id="one device too few"),
    pytest.param([0, 0], 0, WHOLE_GPU, 0.0, id="nothing idle, nothing lost"),
    pytest.param([1000, 500], 9,
                 MixEntry(cpu_millis=1, device_millis=1000, device_count=1, models=("A", "B"), share=0.25), 125.0,
                 id="its share of the mix"),
]  # fmt: skip


@pytest.mark.parametrize(("gpus", "cpu", "entry", "expected"), FRAGMENTS)
def test_fragmentation_class_by_class(gpus, cpu, entry, expected):
    assert kernel_fragment((entry,), gpus, cpu, "A") == expected


def test_fragmentation_adds_the_classes_up():
    mix = (
        MixEntry(cpu_millis=0, device_millis=1000, device_count=1, share=0.5),  # satisfied: 500 too small
        MixEntry(cpu_millis=9000, device_millis=500, device_count=1, share=0.25),  # lacks cpu: 1500
        MixEntry(cpu_millis=0, share=0.25),  # cpu only: 1500
    )
    assert kernel_fragment(mix, [1000, 500], 100, "A") == 0.5 * 500 + 0.25 * 1500 + 0.25 * 1500


FGD = policy("fgd", mix=(MixEntry(cpu_millis=0, device_millis=1000, device_count=1, share=1.0),))

HUNGRY = policy("fgd", mix=(MixEntry(cpu_millis=2000, device_millis=1000, device_count=1, share=1.0),))

FGD_SCORES = [
    # on the half device: F from 500 to 0: sigmoid(0.5) = 0.622; on the whole one: from 500 to 1000
    pytest.param(FGD, [1000, 500], (1, 500), 0, 62, (1,), id="a share mends a broken device"),
    pytest.param(FGD, [1000], (1, 500), 0, 37, (0,), id="a share breaks a whole device: sigmoid(-0.5)"),
    pytest.param(FGD, [500, 500], (1, 500), 0, 62, (0,), id="of equal devices the first"),
    pytest.param(FGD, [1000, 1000], (1, 1000), 0, 50, (0,), id="a whole gpu costs nothing"),
    pytest.param(FGD, [300, 1000, 1000], (2, 1000), 0, 50, (1, 2), id="two whole gpus leave the rest as it was"),
    pytest.param(FGD, [700, 700], (1, 200), 0, 54, (0,), id="F from 1400 to 1200: sigmoid(0.2)"),
    pytest.param(HUNGRY, [1000], None, 1000, 26, (), id="cpu taken from a gpu: sigmoid(-1)"),
    pytest.param(HUNGRY, [1000], None, 500, 50, (), id="cpu to spare"),
]


@pytest.mark.parametrize(("chosen", "left", "gpu", "cpu", "score", "devices"), FGD_SCORES)
def test_fgd_scores_and_devices(chosen, left, gpu, cpu, score, devices):
    engine = gpu_engine(chosen, gpu_host("a", left, cpu=2500))
    wanted = guest("g", cpu=cpu, memory=0, gpu=gpu)
    assert raw_scores(engine, wanted, "fgd") == {"a": score}
    engine.step(0)
    assert engine.decision("g").devices == devices
    assert engine.decision("g").total == 1000 * score


def test_fgd_prefers_the_host_where_least_is_broken():
    engine = gpu_engine(FGD, gpu_host("a", [1000]), gpu_host("b", [1000, 500]))
    assert place(engine, guest("g", gpu=(1, 500))) == ["b"]


def test_a_gain_below_one_step_of_the_score_is_a_tie_and_goes_by_rank():
    # 30 milli of fragmentation are sigmoid(0.03) = 0.507, which is 50 like no gain at all
    engine = gpu_engine(FGD, gpu_host("mends", [530], rank=2), gpu_host("idle", [1000, 1000], rank=1))
    found = raw_scores(engine, guest("g", cpu=0, gpu=(1, 30)), "fgd")
    assert found == {"mends": 50, "idle": 27}
    engine = gpu_engine(FGD, gpu_host("mends", [530], rank=2), gpu_host("too", [520], rank=1))
    assert place(engine, guest("h", cpu=0, gpu=(1, 20))) == ["too"]


def test_a_host_without_gpus_is_worth_nothing_to_the_mix():
    engine = gpu_engine(FGD, gpu_host("cpu", []), gpu_host("gpu", [1000]))
    assert raw_scores(engine, guest("g"), "fgd") == {"cpu": 50, "gpu": 50}


def test_fgd_needs_a_mix():
    with pytest.raises(InputError, match="mix"):
        Engine([BUILT_IN["fgd"]])


def test_the_typical_mix_is_the_commonest_needs_that_cover_enough():
    shapes = (
        [spec(cpu=3000, gpu=(1, 500))] * 5
        + [spec(cpu=2000, gpu=(1, 1000))] * 3
        + [spec(cpu=0, memory=GIB)] * 1
        + [spec(cpu=1000)] * 1
    )
    everything = typical_mix(shapes, cover_percent=100)
    assert [(e.cpu_millis, e.device_millis, e.device_count, e.share) for e in everything] == [
        (3000, 500, 1, 5 / 10), (2000, 1000, 1, 3 / 10), (1000, 0, 0, 1 / 10), (100, 0, 0, 1 / 10),
    ]  # fmt: skip
    most = typical_mix(shapes, cover_percent=75)
    assert [(e.cpu_millis, e.share) for e in most] == [(3000, (5 / 10) / (8 / 10)), (2000, (3 / 10) / (8 / 10))]


def test_the_typical_mix_keeps_models_apart_and_does_not_look_at_memory():
    shapes = [spec(1, 1, devices=(DeviceRequest("gpu", 1, 500, models),)) for models in (("A", "B"), ("A", "B"), ())]
    shapes.append(spec(1, 2, devices=(DeviceRequest("gpu", 1, 500, ("A", "B")),)))
    assert [(e.models, e.share) for e in typical_mix(shapes)] == [(("A", "B"), 3 / 4), ((), 1 / 4)]
    assert typical_mix([]) == ()
