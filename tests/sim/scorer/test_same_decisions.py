"""The network decides the same in process, over HTTP in one request per guest, and in one per node."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from hostler.engine import Engine, Registry, find_policy
from hostler.model import Guest, GuestArrived, HostsJoined
from hostler.queries import with_mixes
from hostler.sim.fill_experiment import FillExperiment, run_fill_experiment
from hostler.sim.openb import openb_experiment
from hostler.sim.scorer.features import FEATURES, features_of, guest_needs
from hostler.sim.scorer.fragments import EncodedMix
from hostler.sim.scorer.plugin import MlpScorer, candidate_hosts, mlp_policy
from hostler.sim.scorer.run import fill_with_service
from tests.sim.scorer.services import asking, our_service, small_fleet

REGISTRY = Registry({"mlp": MlpScorer})


def openb_cut(every: int, guests: int, workload: str = "default") -> FillExperiment:
    """Return every so many hosts and the first guests of the published experiment."""
    whole = openb_experiment(workload, 42)
    return whole._replace(hosts=whole.hosts[::every], order=whole.order[:guests])


def over_http(experiment: FillExperiment, variant: str):
    """Fill with the service's answers; the policy has the ties and devices of ``mlp``, and no scorer of its own."""
    policy = msgspec.structs.replace(mlp_policy(), scorers=())
    with our_service() as service, asking(service.endpoint, variant=variant, timeout_s=60) as client:
        return fill_with_service(experiment, policy, client, 42)


@pytest.mark.parametrize("variant", ["batch", "per_node"])
def test_a_small_fleet_is_filled_alike(variant):
    experiment = small_fleet()
    run = over_http(experiment, variant)
    assert run.result == run_fill_experiment(experiment, mlp_policy(), 42, REGISTRY)
    assert 0 < run.result.failed < run.result.events
    assert run.questions.asked == run.questions.answered > 0


def test_a_cut_of_openb_is_filled_alike():
    experiment = openb_cut(40, 250)
    run = over_http(experiment, "batch")
    assert run.result == run_fill_experiment(experiment, mlp_policy(), 42, REGISTRY)
    assert run.result.failed > 0


def test_a_cut_with_guests_that_want_a_model_is_filled_alike():
    experiment = openb_cut(60, 150, "gpuspec33")
    assert over_http(experiment, "batch").result == run_fill_experiment(experiment, mlp_policy(), 42, REGISTRY)


@pytest.mark.long
def test_the_first_thousand_guests_of_openb_are_placed_alike_on_all_hosts():
    experiment = openb_cut(1, 1000)
    assert over_http(experiment, "batch").result == run_fill_experiment(experiment, mlp_policy(), 42, REGISTRY)


def test_features_measure_fragmentation_as_fgd_does():
    experiment = openb_cut(30, 200)
    engine = Engine(with_mixes([find_policy("fgd")], experiment.specs), 0, 42)
    engine.apply_many(HostsJoined(hosts=experiment.hosts))
    for at, pod in enumerate(experiment.order.tolist()):
        guest = Guest(name=f"pod-{at}", uid=f"pod-{at}", spec=experiment.specs[pod])
        engine.apply(GuestArrived(guest=guest))
        if at % 20 == 19:
            _compare(engine, guest, experiment)
        engine.step(1)


def _compare(engine: Engine, guest: Guest, experiment: FillExperiment) -> None:
    """Compare fgd's raw scores for a waiting guest with those that follow from our features."""
    mix = EncodedMix(experiment.mix)
    shown = {verdict.host: verdict.scores[0].raw for verdict in engine.explain(guest.uid).verdicts if verdict.scores}
    rows = np.array([engine.view.row(host) for host in shown], dtype=np.int64)
    table = features_of(guest_needs(guest.spec), candidate_hosts(engine.view.cluster, rows, mix), mix)
    ours = 100 / (1 + np.exp(-table[:, FEATURES.index("relief")]))
    # Features are rounded, so a score at the very edge of two integers may fall on either side.
    np.testing.assert_allclose(ours - np.array(list(shown.values())), 0.5, rtol=0, atol=0.51)


def test_a_host_scores_the_same_alone_and_among_others():
    experiment = openb_cut(10, 0)
    engine = Engine([mlp_policy()], 0, 42, registry=REGISTRY)
    engine.apply_many(HostsJoined(hosts=experiment.hosts))
    scorer = MlpScorer(engine.view.cluster, {})
    rows = np.arange(len(experiment.hosts), dtype=np.int64)
    for spec in list(dict.fromkeys(experiment.specs))[:3]:
        together = scorer.evaluate(spec, rows).tolist()
        assert together == [scorer.evaluate(spec, rows[at : at + 1])[0] for at in range(len(rows))]
        assert all(0 <= score <= 100 for score in together)


@pytest.mark.long
@pytest.mark.parametrize("seed", [42, 43])
def test_on_openb_the_shipped_network_allocates_more_than_best_fit(seed):
    experiment = openb_experiment("default", seed)
    network = run_fill_experiment(experiment, mlp_policy(), seed, REGISTRY)
    best_fit = run_fill_experiment(experiment, find_policy("gpu_best_fit"), seed)
    assert network.gpu_milli_allocated > best_fit.gpu_milli_allocated
