"""A report is one page that needs nothing else, and says what the results say."""

from __future__ import annotations

import re

import msgspec
import pytest

from hostler.errors import DuplicateNameError, InputError
from hostler.sim.fill_experiment import BINS, Curves
from hostler.sim.report import report_page
from hostler.sim.scenarios.outcome import Series
from hostler.sim.sweeps.cells import CellResult, SweepCell
from tests.sim.report.pages import Page
from tests.sim.report.samples import filled, played

POLICIES = ("fgd", "first_fit", "dot_product")
FILLINGS = [
    filled(policy, seed, workload, gpu_milli_allocated=9000 + 100 * at + seed)
    for workload in ("default", "gpuspec33")
    for at, policy in enumerate(POLICIES)
    for seed in (42, 43, 44)
]
SCENARIOS = [played(policy, seed) for policy in ("spread", "pack") for seed in (1, 2)]


def swept(policy: str = "fgd", seed: int = 42, *, tune: float = 1.3, error: str = "", **figures: float) -> CellResult:
    figures = {"gpu_percent": 90.0, "failed": 5.0, "frag_percent": 3.0, **figures}
    cell = SweepCell(policy=policy, seed=seed, tune=tune)
    return CellResult(key="k", hostler="0", cell=cell, figures={} if error else figures, error=error)


def test_tags_are_balanced():
    assert Page(report_page([*FILLINGS, *SCENARIOS])).named("svg")


def test_the_same_results_give_the_same_bytes():
    assert report_page([*FILLINGS, *SCENARIOS]) == report_page([*FILLINGS, *SCENARIOS])


def test_nothing_is_fetched_from_anywhere():
    page = report_page([*FILLINGS, *SCENARIOS])
    assert not re.search(r"https?://|@import|url\(|//[a-z]+\.", page)
    addresses = [value for _, attributes in Page(page).tags for key, value in attributes.items()
                 if key in ("src", "href", "srcset", "action", "data")]  # fmt: skip
    assert addresses
    assert all(value and value.startswith(("#", "data:image/png;base64,")) for value in addresses)


def test_names_of_policies_and_workloads_are_escaped_wherever_they_stand():
    evil = "<script>alert(1)</script>\"'&"
    text = report_page([filled(evil, workload=evil), filled("other", workload=evil), played(evil, scenario=evil)])
    assert "<script>alert" not in text
    page = Page(text)
    assert [name for name, _ in page.tags].count("script") == 1
    assert page.row("after the last arrival", evil)["GPU allocated %"] == "82.00"
    assert not any(key.startswith("on") for _, attributes in page.tags for key in attributes)


def test_characters_that_no_page_may_hold_are_replaced():
    text = report_page([filled("nul\0 turned\u202e lone\ud800")])
    assert "nul\ufffd turned\ufffd lone\ufffd" in text
    assert text.encode()


def test_every_policy_and_every_workload_appears():
    page = Page(report_page(FILLINGS))
    overview = page.table("Allocated GPU after the last arrival")
    assert overview[0] == ["Workload", *POLICIES]
    assert [row[0] for row in overview[1:]] == ["default", "gpuspec33", "all together", "wins"]
    lines = [attributes for attributes in page.named("polyline") if attributes.get("data-name")]
    assert {attributes["data-name"] for attributes in lines} == set(POLICIES)


def test_the_table_of_a_workload_has_means_spreads_failures_and_wins():
    row = Page(report_page(FILLINGS)).row("gpuspec33: after the last arrival", "dot_product")
    assert row == {
        "Policy": "dot_product",
        "Runs": "3",
        "GPU allocated %": "92.43 ± 0.01",
        "To the best": "best",
        "95 % within": "-",
        "Wins": "3 of 3",
        "Failed guests": "207.0 ± 0.0",
        "Fragmented GPU %": "5.00 ± 0.00",
    }


def test_the_table_of_all_runs_has_the_numbers_of_the_input():
    row = Page(report_page(FILLINGS)).row("Every run", "default", "first_fit", "43")
    assert row == {
        "Workload": "default", "Policy": "first_fit", "Seed": "43", "GPU %": "91.43", "CPU %": "50.00",
        "Memory %": "25.00", "Arrivals": "1,300", "Failed": "207", "GPUs touched": "9", "Fragmented %": "5.00",
        "GPU % at 100 %": "83.00",
    }  # fmt: skip


def test_the_numbers_of_a_curve_are_means_over_seeds():
    page = Page(report_page([filled(seed=42), filled(seed=43)]))
    assert page.row("Allocated GPU: mean over seeds", "100") == {"Asked for %": "100", "fgd": "82.50"}
    assert page.row("Fragmentation ratio", "50") == {"Asked for %": "50", "fgd": "25.00"}
    assert page.row("Unallocated GPU", "at 130 %")["Mean"] == "17.50"
    assert page.row("Unallocated GPU", "at 130 %")["Least to most"] == "17.00 to 18.00"


def test_curves_end_where_arrivals_do():
    short = tuple(float(at) if at <= 60 else 0.0 for at in range(131))
    curves = filled().curves
    page = Page(report_page([filled(curves=type(curves)(short, short, short))]))
    assert page.table("Allocated GPU: mean over seeds")[-1] == ["60", "60.00"]
    assert not any("Unallocated" in caption for caption in page.tables)


def test_seeds_that_not_every_policy_has_are_left_out_of_the_comparison():
    page = Page(report_page([filled("fgd", 42), filled("fgd", 43), filled("first_fit", 43)]))
    assert page.row("after the last arrival", "fgd")["Runs"] == "1"
    assert "left out here: 1." in page.text
    assert len(page.table("Every run")) == 4


def test_policies_that_share_no_seed_are_shown_without_a_comparison():
    page = Page(report_page([filled("fgd", 42), filled("first_fit", 43)]))
    assert page.row("after the last arrival", "first_fit")["GPU allocated %"] == "83.00"


def test_a_scenario_has_its_charts_tables_and_maps():
    page = Page(report_page(SCENARIOS))
    titles = [text for text in page.texts if text in ("CPU in use", "Memory in use", "Waiting guests", "Stranded CPU")]
    assert {"CPU in use", "Memory in use", "Waiting guests", "Stranded CPU"} == set(titles)
    assert "GPU in use" not in page.text
    assert "Hosts in time, pack" in page.text
    assert len(page.named("image")) == 2


def test_the_figures_of_a_scenario_are_those_of_the_input():
    page = Page(report_page([played()]))
    caption = "two nights: mean"
    assert page.row(caption, "CPU in use %")["spread"] == "43.21"
    assert page.row(caption, "Mean wait, minutes")["spread"] == "1.02"
    assert page.row(caption, "Evictions")["spread"] == "17"
    assert page.row(caption, "Lost work, hours")["spread"] == "1.50"
    assert page.row("CPU in use: mean over seeds", "2")["spread"] == "50.00"
    assert page.row("Share in use of the hosts", "spread")["Highest %"] == "120.00"


def test_waiting_times_are_told_by_priority_highest_first_and_by_size():
    page = Page(report_page([played()]))
    caption = "By priority, in seconds"
    assert [row[0] for row in page.table(caption)[1:]] == ["100", "0"]
    assert page.row(caption, "0") == {
        "Priority": "0", "Policy": "spread", "Guests": "12", "Mean": "61.50", "Median": "30.00", "95 % below": "97.25",
        "Longest": "119.00",
    }  # fmt: skip
    assert page.row("By size", "up to 4 cores")["Longest"] == "119.00"


def test_tunings_of_a_sweep_are_told_apart():
    page = Page(report_page([swept(tune=1.0), swept(tune=1.3, gpu_percent=95.5)]))
    assert page.row("default, tune 1: after", "fgd")["GPU allocated %"] == "90.00"
    assert page.row("default, tune 1.3: after", "fgd")["GPU allocated %"] == "95.50"


def test_bounds_of_a_sweep_become_a_column():
    cell = SweepCell(kind="bound", seed=42)
    bound = CellResult(key="b", hostler="0", cell=cell, figures={"bound_percent": 96.0})
    assert Page(report_page([swept(), bound])).row("after the last arrival", "fgd")["Of the bound %"] == "93.75"


def test_runs_that_failed_are_listed_with_their_error():
    page = Page(report_page([swept(), swept("broken", error="no <such> plugin")]))
    assert page.row("Runs that failed", "default", "broken")["Error"] == "no <such> plugin"


def test_a_result_that_is_there_twice_counts_once():
    page = Page(report_page([filled(), filled()]))
    assert len(page.table("Every run")) == 2


def test_two_different_results_of_one_run_are_refused():
    with pytest.raises(DuplicateNameError, match="two results of default, policy fgd, seed 42, and they differ"):
        report_page([filled(), filled(failed=3)])


def test_no_results_are_refused():
    with pytest.raises(InputError, match="no results"):
        report_page([])


def test_bounds_alone_are_refused():
    with pytest.raises(InputError, match="no results"):
        report_page([CellResult(key="b", hostler="0", cell=SweepCell(kind="bound"), figures={"bound_percent": 96.0})])


NOTHING = (0.0,) * BINS
FIRST = Series(*(getattr(played().series, name)[:1] for name in Series.__struct_fields__))


@pytest.mark.parametrize(
    "results",
    [
        [filled(gpu_milli_total=0, gpu_milli_allocated=0, curves=Curves(NOTHING, NOTHING, NOTHING))],
        [played(series=Series(*[()] * len(Series.__struct_fields__)))],
        [played(series=FIRST)],
        [played(seed=1), played(seed=2, series=FIRST)],
        [played(waits_by_priority={}, waits_by_size={})],
        [played(waits_by_priority={"-5": played().waits, "high": played().waits})],
        [played(series=msgspec.structs.replace(played().series, by_host=((),) * 5))],
        [filled("a", 1), filled("a", 2), filled("b", 1, "other")],
        [filled("spread"), played("spread")],
        [swept("broken", error="no such plugin")],
    ],
    ids=["no gpus", "no measurements", "one measurement", "runs of different length", "nobody waited",
         "odd priorities", "no hosts", "uneven", "one policy in both parts", "all failed"],
)  # fmt: skip
def test_results_with_little_in_them_still_make_a_page(results):
    assert "nan" not in Page(report_page(results)).text.split()


def test_every_drawing_has_a_title_and_a_description():
    page = Page(report_page([*FILLINGS, *SCENARIOS]))
    places = [
        at for at, (name, attributes) in enumerate(page.tags) if name == "svg" and attributes.get("role") == "img"
    ]
    assert places
    assert all([name for name, _ in page.tags[at + 1 : at + 3]] == ["title", "desc"] for at in places)
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_twenty_policies_keep_apart_by_colour_and_dash():
    page = Page(report_page([filled(f"policy-{at}", gpu_milli_allocated=9000 + at) for at in range(20)]))
    looks = {
        (str(line["class"]).split()[1], line.get("stroke-dasharray"))
        for line in page.named("polyline")
        if line.get("data-name")
    }
    assert len(looks) == 20


def test_a_hundred_runs_stay_small():
    runs = [filled(f"policy-{at}", seed) for at in range(10) for seed in range(40, 50)]
    assert len(report_page(runs)) < 3_000_000
