"""Request and response bodies of REST: one struct each for the services, REST, the client, commands and pages.

Schemas are below the services: they know VMs, but neither databases nor HTTP. Field names are those of the JSON.
Requests reject unknown fields. Responses have all their fields and may get new ones, so a client must ignore fields
that it does not know. Times are RFC 3339 in UTC.
"""

from __future__ import annotations

from hostler.control.schemas.base import (
    Health,
    Nothing,
    Page,
    Problem,
    ProblemCause,
)
from hostler.control.schemas.fleet import (
    AllowTeardown,
    Confirm,
    Host,
    HostEdit,
    HostReserved,
    HostStuck,
    HostUse,
    Key,
    KeyCreate,
    KeyMade,
    KeyRotate,
    Scheduling,
    Token,
    TokenCreate,
    TokenMade,
    Whoami,
)
from hostler.control.schemas.placement import (
    Candidates,
    CandidatesAsked,
    Plan,
    PlanAsked,
    PlanHost,
    Planned,
    PlanVm,
    Policies,
    Policy,
    Queue,
    Scorer,
    Victim,
    Waiting,
)
from hostler.control.schemas.tenancy import (
    Gang,
    GangCreate,
    GangEdit,
    Project,
    ProjectCreate,
    ProjectEdit,
    Quota,
    QuotaCreate,
    QuotaEdit,
    Reservation,
    ReservationBody,
    ReservationCreate,
    ReservationEdit,
)
from hostler.control.schemas.vms import (
    Booked,
    Condition,
    Event,
    Migrate,
    Operation,
    Start,
    Vm,
    VmChanged,
    VmCreate,
    VmEdit,
)

__all__ = [
    "AllowTeardown", "Booked", "Candidates", "CandidatesAsked", "Condition", "Confirm", "Event", "Gang", "GangCreate",
    "GangEdit", "Health", "Host", "HostEdit", "HostReserved", "HostStuck", "HostUse", "Key", "KeyCreate", "KeyMade",
    "KeyRotate", "Migrate", "Nothing", "Operation", "Page", "Plan", "PlanAsked", "PlanHost", "PlanVm", "Planned",
    "Policies", "Policy", "Problem", "ProblemCause", "Project", "ProjectCreate", "ProjectEdit", "Queue", "Quota",
    "QuotaCreate", "QuotaEdit", "Reservation", "ReservationBody", "ReservationCreate", "ReservationEdit", "Scheduling",
    "Scorer", "Start", "Token", "TokenCreate", "TokenMade", "Victim", "Vm", "VmChanged", "VmCreate", "VmEdit",
    "Waiting", "Whoami",
]  # fmt: skip
