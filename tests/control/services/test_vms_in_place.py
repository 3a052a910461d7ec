"""What the owner of a growing VM reads: all that it would have, and which VMs block the rest."""

from __future__ import annotations

import pytest

from hostler.control.services.explanations.vms_in_place import with_total_amounts
from hostler.control.vms.spec import Size, VmSpec
from hostler.control.vms.state import Booking, Claim, Vm
from hostler.model import Cure, CureChange, Decision, Explanation, Failure, HostVerdict, Reason

VM = Vm(
    id="v",
    project="red",
    name="web",
    spec=VmSpec(cpu="6", memory="1Gi"),
    home=Booking(host="id-a", name="a"),
    run=Claim(uid="v", size=Size(cpu_millis=2000), is_bound=True),
)


@pytest.mark.parametrize(
    ("by", "text"),
    [
        ((), "ask for 3 cpu less (at most 3)"),
        (("gang:red/crew",), "ask for 3 cpu less (at most 3)"),
        (("reservation:red/night",), "ask for 3 cpu less (at most 3; reservation red/night holds the rest)"),
        (
            ("a reservation of another project",),
            "ask for 3 cpu less (at most 3; a reservation of another project holds the rest)",
        ),
    ],
)
def test_the_most_that_would_fit_is_what_it_has_and_what_is_free(by: tuple[str, ...], text: str) -> None:
    failure = Failure(reason=Reason("resources", "insufficient", "cpu"), needed=4000, free=1000, missing=3000, by=by)
    less = CureChange(kind="reduce_request", subject="cpu", text="ask for 3 cpu less (at most 1)", relative=0.75)
    found = with_total_amounts(
        Explanation(
            decision=Decision(guest="red/web", uid="v.2", seq=1, at=1, policy="p", state="held"),
            as_of="now",
            verdicts=(HostVerdict(host="a", failures=(failure,)),),
            cure=Cure(host="a", changes=(less,)),
        ),
        VM,
    )
    assert found.cure is not None
    assert (found.cure.changes[0].text, found.cure.changes[0].relative) == (text, 0.5)
