"""``hostler explain``: why a guest goes where it goes or nowhere, what else would fit, and what would cure it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hostler.cli.kube.options import context_option, kubeconfig_option, via_option
from hostler.cli.options import (
    FILE,
    budgets_option,
    config_option,
    examples,
    files_option,
    output_option,
    plugin_option,
    policy_option,
    preempt_option,
    seed_annotations_option,
    seed_option,
)
from hostler.cli.output.terminal import print_data, printable, say, say_parts

if TYPE_CHECKING:
    from hostler.cli.output.explanations import ShownExplanation
    from hostler.kube.live.past_pods import PastPod
    from hostler.model import Decision, Explanation, HostVerdict
    from hostler.model.policies import BudgetRule
    from hostler.queries import GuestExplanation

__all__ = ["explain", "show_explained"]


@click.command(
    epilog=examples(
        "hostler explain -f fleet.yaml -f guests.yaml web-0",
        "hostler explain -f fleet.yaml --policy pack team-a/db-0 -o json",
        "hostler explain --journal run.journal web-0",
        "hostler explain -n team-a db-0 --kubeconfig ~/.kube/config",
    ),
    short_help="Say why a guest goes where it goes, or nowhere.",
)
@click.argument("guest", metavar="GUEST")
@files_option(required=False)
@click.option(
    "--journal", metavar="FILE", type=FILE, default="", help="Take the guest from a recorded run instead of files."
)
@click.option("-n", "--namespace", metavar="NAMESPACE", default="", help="Of a pod on a live cluster.")
@kubeconfig_option()
@context_option()
@via_option()
@policy_option()
@plugin_option()
@config_option()
@seed_option()
@preempt_option()
@budgets_option()
@seed_annotations_option()
@output_option("table", "wide", "json", "yaml")
def explain(
    guest: str,
    files: tuple[str, ...],
    journal: str,
    namespace: str,
    kubeconfig: Path | None,
    context: str,
    via: str,
    policy: str,
    plugins: tuple[Path, ...],
    config: str,
    seed: int,
    preempt: bool,
    budgets: BudgetRule | None,
    seed_annotations: bool,
    output: str,
) -> None:
    """Say why a guest goes where it goes, or nowhere, as things stood when it was decided.

    GUEST is a name, namespace/name, or a uid; on a live cluster also pod/name. With -f everything is placed as 'hostler
    place' does it with the same options; with --journal the recorded run is replayed, and of a guest that left the last
    decision is explained. Without either, GUEST is a pod of the live cluster that --kubeconfig, KUBECONFIG or
    ~/.kube/config leads to; nothing is written there. A guest that already runs is explained too: where it is, and what
    else would fit. For a pod that has ended or is gone, it prints what is still known. For a pod that fits nowhere, the
    line is shown that kube-scheduler would write.
    """
    if plugins and not (files or journal):
        raise click.UsageError("--plugin is for -f and --journal")
    is_live = _is_live(files, journal, namespace or via, kubeconfig, context)
    if journal and (policy or config or seed or seed_annotations or preempt):
        raise click.UsageError(
            "a journal has its own policies and seed: leave --policy, --config, --seed and --preempt away"
        )
    if budgets and not preempt:
        raise click.UsageError("--budgets needs --preempt")
    from hostler.cli.kernels import kernels

    with kernels() as compiled:
        from hostler.cli.files import load_journal
        from hostler.cli.inputs.file_input import read_inputs
        from hostler.cli.output.explanations import ShownExplanation
        from hostler.queries import explain_guest, explain_recorded_guest, with_preemption
        from hostler.runtime.plugins import registry_for

        if is_live:
            from hostler.cli.kube.options import needs_kube

            with needs_kube():
                from hostler.cli.kube.explain import explain_live, explain_via

            explained: ShownExplanation | PastPod = (
                explain_via(via, guest, namespace, kubeconfig, context)
                if via
                else explain_live(compiled, guest, namespace, kubeconfig, context, config=config, policy=policy)
            )
        elif journal:
            from hostler.runtime.plugin_files import load_plugin_files

            recorded = load_journal(journal)
            registry = registry_for(recorded.header.policies, load_plugin_files(plugins).factories)
            compiled.announce()
            explained = ShownExplanation.of(_in_file_words(explain_recorded_guest(recorded, guest, registry)))
        else:
            inputs = read_inputs(
                files, policy=policy, config=config, seed=seed, seed_annotations=seed_annotations, plugins=plugins
            )
            evicting = with_preemption(inputs.policies, is_on=True, budgets=budgets)
            compiled.announce()
            found = explain_guest(inputs, guest, evicting, preempt=preempt)
            explained = ShownExplanation.of(_in_file_words(found), is_of_files=True)
    show_explained(explained, output)


def _in_file_words(found: GuestExplanation) -> GuestExplanation:
    """Return an explanation that speaks of placements only: nothing of a file or a journal is carried out."""
    import msgspec

    from hostler.model.vocabulary import FILE_WORDS, render_explanation

    return msgspec.structs.replace(found, explanation=render_explanation(found.explanation, FILE_WORDS))


def show_explained(explained: ShownExplanation | PastPod, output: str) -> None:
    """Print an explanation; ``vm explain`` prints the same lines."""
    from hostler.cli.output.explanations import ShownExplanation, explanation_data

    is_data = output in ("json", "yaml")
    if isinstance(explained, ShownExplanation):
        if is_data:
            print_data(explanation_data(explained), output)
        else:
            _print(explained, is_wide=output == "wide")
        return
    from hostler.cli.kube.explain import print_past

    if is_data:
        import msgspec

        print_data(msgspec.to_builtins(explained), output)
    else:
        print_past(explained)


def _is_live(files: tuple[str, ...], journal: str, other: str, kubeconfig: Path | None, context: str) -> bool:
    """Say whether a live cluster is meant: nothing else is given, and there is one."""
    if files or journal:
        if files and journal:
            raise click.UsageError("give either -f FILE or --journal FILE")
        if other or kubeconfig or context:
            raise click.UsageError(
                "-n, --via, --kubeconfig and --context are for live clusters, without -f or --journal"
            )
        return False
    from hostler.errors import InputError
    from hostler.kube.api.access import read_access

    try:
        read_access(kubeconfig, context)
    except InputError:
        if kubeconfig or context or os.environ.get("KUBECONFIG"):
            raise
        raise click.UsageError("give either -f FILE or --journal FILE, or --kubeconfig of a live cluster") from None
    return True


def _print(explained: ShownExplanation, *, is_wide: bool) -> None:
    from hostler.cli.journals.lines import departure_line
    from hostler.cli.output.explanations import (
        SHOWN,
        print_fitting,
        print_more,
        print_rejecting,
        print_scheduler_message,
    )
    from hostler.model.explanation_texts import NO_CURE, TRIED_AGAIN, cure_text
    from hostler.queries import display_name

    verdicts = explained.explanation.verdicts
    fitting = [verdict for verdict in verdicts if verdict.fits]
    refusing = [verdict for verdict in verdicts if not verdict.fits]
    if explained.said and explained.decision.host:
        print_scheduler_message(display_name(explained.guest), explained.said)
    say_parts(_sentence(explained))
    if explained.if_placed_now and explained.if_placed_now != explained.decision.host:
        say(printable(f"If it were placed now, it would go to {explained.if_placed_now}."))
    if explained.pinned:
        say(printable(f"Pinned: {explained.pinned}."))
    if explained.made_way and not explained.was_bound:
        say(printable(f"It was stopped because {explained.made_way}."))
    if explained.moved_for:
        say(printable(f"It was moved there to make room for {explained.moved_for}."))
    if explained.hint:
        is_said = explained.was_bound or explained.if_started
        say(printable(f"{'' if is_said else f'It {explained.now}. '}What to do: {explained.hint}."))
    if explained.explanation.ignored:
        ignored = ", ".join(explained.explanation.ignored)
        say(printable(f"Policy {explained.decision.policy} does not count its {ignored}."))
    if explained.said and not explained.decision.host:
        say(printable(f"Its scheduler says: {explained.said}"))
    if fitting and not explained.was_bound:
        fitting.sort(key=lambda verdict: verdict.host != explained.decision.host)  # stable: the chosen one first
    if explained.eviction is not None:
        gone = explained.eviction
        say(printable(f"It is evicted from {gone.host} in this run: {gone.why}."))
    if explained.departure is not None:
        say(departure_line(explained.departure))
    if fitting:
        moment = _moment(explained, fitting)
        if moment:
            say()
            say(moment)
        print_fitting(fitting, explained.decision.host, None if is_wide else SHOWN)
    if refusing and (is_wide or not fitting or explained.was_bound):
        print_rejecting(refusing, None if is_wide else SHOWN, explained.words)
    elif refusing:
        from hostler.cli.output.decision_texts import plural

        say()
        say(f"{plural(len(refusing), 'host')} did not fit; -o wide shows why.")
    if explained.message:
        say()
        say(printable(explained.message))
    print_more(explained.explanation, is_wide=is_wide, is_of_files=explained.is_of_files, words=explained.words)
    if explained.bound_to:
        return  # no guest waits
    if explained.explanation.cure is not None:
        say()
        say(cure_text(explained.explanation.cure))
    elif refusing and not fitting and not explained.decision.host:
        say()
        say(NO_CURE)
    if explained.explanation.wakes and not explained.decision.host:
        say()
        say(TRIED_AGAIN)
        for wake in explained.explanation.wakes:
            say(f"  {wake}")


def _moment(explained: ShownExplanation, fitting: list[HostVerdict]) -> str:
    """Say where the table is of another moment than the decision: members of a gang are decided one after the other."""
    decision = explained.decision
    if not explained.guest.gang or explained.was_bound:
        return ""
    if not decision.host:
        return "On its own, before other members of its gang take room, it would find:"
    is_same = (fitting[0].total, len(fitting)) == (decision.total, decision.feasible)
    return "" if is_same else "Before other members of its gang took room, hosts scored:"


def _sentence(explained: ShownExplanation) -> str:
    from hostler.cli.output.decision_texts import number_text, plural, reason_line, request_text
    from hostler.model.explanation_texts import takers_text
    from hostler.queries import display_name

    decision, explanation = explained.decision, explained.explanation
    name = f"{display_name(explained.guest)} ({request_text(explained.guest.spec)})"
    policy = f"policy {decision.policy}"
    if explained.was_bound:
        fitting, hosts = len(explanation.feasible), len(explanation.verdicts)
        standing = explained.now or f"already runs on {decision.host}"
        return f"{name} {standing}. {takers_text(fitting, hosts)}, by {policy}."
    if explained.if_started:
        return f"{name} {explained.now}. {_if_started(explained)}; {policy}."
    if explained.bound_to and not decision.host:
        return f"{name} was bound to {explained.bound_to} by another scheduler; {policy} {_elsewhere(explained)}."
    if not decision.host and explanation.feasible and not (decision.reasons or decision.note or explanation.quota):
        takers = takers_text(len(explanation.feasible), len(explanation.verdicts))
        return f"{name} is not placed yet: {takers} now; {policy}."
    if not decision.host:
        # One that waits for its gang or its quota may well find hosts that would take it.
        verdict = "is not placed" if explanation.feasible else "fits nowhere"
        return f"{name} {verdict}: {reason_line(_without_repeated_note(explanation), explained.words)}; {policy}."
    others = "the only one that fits" if decision.feasible == 1 else f"the best of {decision.feasible:,} that fit"
    score = f", score {number_text(decision.total)}" if decision.total is not None else ""
    devices = f", device{'s' if len(decision.devices) > 1 else ''} {', '.join(map(str, decision.devices))}"
    where = decision.host + (devices if decision.devices else "")
    tie = _tie(explained)
    gang = explanation.gang
    if gang is not None and gang.domain:
        others += f" in {gang.topology}={gang.domain}, where its gang goes"
    best = f"{where}{score}: {others}, of {plural(decision.hosts, 'host')}"
    if explained.bound_to:
        return f"{name} was bound to {explained.bound_to} by another scheduler; {policy} would have chosen {best}."
    goes = "would go" if explained.said else "goes"
    return f"{name} {goes} to {best}; {tie}{policy}."


def _if_started(explained: ShownExplanation) -> str:
    """Say what would become of a stopped VM; hosts may take one that its gang or its quota keeps from starting."""
    from hostler.cli.output.decision_texts import reason_line
    from hostler.model.explanation_texts import takers_text

    explanation = explained.explanation
    decision, takers = explanation.decision, len(explanation.feasible)
    if takers and not (decision.note or explanation.quota):
        return f"If it were started now, {takers_text(takers, len(explanation.verdicts))}"
    verdict = "would wait" if takers else "would fit nowhere"
    return f"If it were started now, it {verdict}: {reason_line(_without_repeated_note(explanation), explained.words)}"


def _elsewhere(explained: ShownExplanation) -> str:
    """Say what the policy would have done with a guest that another scheduler placed."""
    from hostler.cli.output.decision_texts import reason_line
    from hostler.cli.output.explanations import victims_text

    advice = explained.explanation.eviction
    if advice is not None and advice.host and not advice.why_not:
        return f"would have evicted {victims_text(advice)} on {advice.host} for it"
    return f"would not have placed it: {reason_line(_without_repeated_note(explained.explanation))}"


def _without_repeated_note(explanation: Explanation) -> Decision:
    """Return the decision without a note that no eviction helps, where the advice below says so and why."""
    from hostler.model.notes import NO_EVICTION_HELPS, find_note
    from hostler.model.vocabulary import with_notes

    decision, advice = explanation.decision, explanation.eviction
    if advice is None or advice.host or find_note(decision.notes, NO_EVICTION_HELPS) is None:
        return decision
    return with_notes(decision, (note for note in decision.notes if note.code != NO_EVICTION_HELPS))


def _tie(explained: ShownExplanation) -> str:
    """Say how a tie was decided. With an external scorer or a gang, more than these totals counted."""
    from hostler.cli.output.explanations import tie_text

    policy = explained.policy
    if policy is None or policy.ask is not None or explained.guest.gang:
        return ""
    fitting = [verdict for verdict in explained.explanation.verdicts if verdict.fits]
    text = tie_text(policy.ties, fitting, explained.decision.host)
    return f"{text}; " if text else ""
