"""The comparison finds the differences that it is meant to find."""

from hostler.manifests.objects.core import Pod
from tests.kube.oracle.answers import SchedulerAnswer
from tests.kube.oracle.clusters import make_case
from tests.kube.oracle.differences import differences, differences_in_words
from tests.kube.oracle.engine_answers import Choice, EngineAnswer
from tests.kube.oracle.examination import without
from tests.kube.oracle.logs import Log

POD = Pod()


def placed(**changes):
    theirs = {"feasible": ["a", "b"], "scores": {"a": {"Fit": 1}, "b": {"Fit": 2}}, "node": "b", **changes}
    return SchedulerAnswer("default/p", **theirs)


def ours(**changes):
    said = {"feasible": ["a", "b"], "scores": {"a": {"Fit": 1}, "b": {"Fit": 2}}, "totals": {"a": 1, "b": 2}}
    return EngineAnswer(**said | {"node": "b"} | changes)


def evicting(node, *victims):
    return SchedulerAnswer("default/p", message="0/2 nodes", nominated=node, node=node, victims=list(victims))


def ours_evicting(**choices):
    best = min(choices, key=lambda node: choices[node].cost)
    return EngineAnswer(message="0/2 nodes", nominated=best, victims=choices[best].victims, choices=choices)


def test_equal_answers_do_not_differ():
    assert differences(placed(), ours(), POD) == []
    assert differences(evicting("a", "x"), ours_evicting(a=Choice(["x"], (1,))), POD) == []


def test_a_node_that_fits_only_one_of_them_is_a_difference():
    assert "for us alone on ['b']" in differences(placed(feasible=["a"]), ours(), POD)[0]


def test_every_score_counts():
    assert "Fit scores a 3 for them, 1 for us" in differences(placed(scores={"a": {"Fit": 3}}), ours(), POD)[0]


def test_a_plugin_that_one_of_them_leaves_out_counts_as_0():
    assert differences(placed(scores={"a": {"Fit": 1, "Other": 0}}), ours(), POD) == []
    assert len(differences(placed(scores={"a": {"Fit": 1, "Other": 5}}), ours(), POD)) == 1


def test_node_below_our_best_total_differs_and_an_equal_one_does_not():
    assert "our best has 2" in differences(placed(node="a"), ours(), POD)[0]
    scores = {"a": {"Fit": 2}, "b": {"Fit": 2}}
    assert differences(placed(node="a", scores=scores), ours(totals={"a": 2, "b": 2}, scores=scores), POD) == []


def test_other_victims_differ_and_equally_cheap_nodes_do_not():
    choices = {"a": Choice(["x"], (1,)), "b": Choice(["y"], (1,)), "c": Choice(["z"], (2,))}
    assert differences(evicting("b", "y"), ours_evicting(**choices), POD) == []
    assert "we would evict ['y']" in differences(evicting("b", "x"), ours_evicting(**choices), POD)[0]
    assert "at (2,)" in differences(evicting("c", "z"), ours_evicting(**choices), POD)[0]


def test_victims_of_one_of_them_only_are_a_difference():
    assert "we nobody" in differences(evicting("a", "x"), EngineAnswer(message="0/2 nodes"), POD)[0]


def test_words_are_compared_without_what_is_said_of_preemption():
    theirs = SchedulerAnswer(
        "default/p", message="0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes …"
    )
    assert differences_in_words(theirs, EngineAnswer(message="0/1 nodes are available: 1 Insufficient cpu.")) == []
    assert len(differences_in_words(theirs, EngineAnswer(message="0/1 nodes are available: 1 Too many pods."))) == 1


def test_a_seed_always_makes_the_same_case():
    assert make_case(7) == make_case(7)
    assert make_case(7) != make_case(8)


def test_a_node_that_is_left_out_takes_its_pods_and_their_statuses_along():
    case = next(case for case in map(make_case, range(100)) if len(case.statuses) > 5)
    node = case.running[0]["spec"]["nodeName"]
    at = [one["metadata"]["name"] for one in case.nodes].index(node)
    smaller = without(case, "nodes", at)
    assert len(smaller.nodes) == len(case.nodes) - 1
    assert all(pod["spec"]["nodeName"] != node for pod in smaller.running)
    assert len(smaller.statuses) < len(case.statuses)


def test_the_log_tells_scores_by_pod_node_and_plugin():
    log = Log()
    log.take('I1115 schedule_one.go:983] "Plugin scored node for pod" pod="ns/p" plugin="Fit" node="n" score=86\n')
    log.take('I1115 schedule_one.go:483] "Successfully bound pod to node" pod="ns/p" node="n" evaluatedNodes=2\n')
    assert log.scores == {"ns/p": {"n": {"Fit": 86}}}
    assert log.bound == {"ns/p"}
