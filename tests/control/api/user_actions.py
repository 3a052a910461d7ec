"""What people do to a service over REST, each deed with what must come of it, and what holds after every deed."""

from __future__ import annotations

from typing import Any

import httpx
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from tests.control.api.promise_model import WANTED, Json, Known, refusals
from tests.control.api.service_machine import HOSTS, Place, ServiceMachine

__all__ = ["UserActions"]

PLACES = st.sampled_from(
    [("default", "web"), ("default", "db"), ("default", "cache"), ("red", "web"), ("red", "db"), ("red", "mail")]
)
CORES = st.sampled_from([1, 2, 3, 5])
KINDS = st.sampled_from(["plain", "plain", "disk", "gang", "urgent"])
WHICH = st.integers(0, 5)  # of those that there are
KEYS = st.sampled_from(["", "", "k1", "k2"])
MATCHES = st.sampled_from(["", "", "now", "old"])
TARGETS = st.sampled_from(["", "a", "b", "c", "nowhere"])
NAMES = st.sampled_from(sorted(HOSTS))
DEEDS = st.sampled_from(["cordon", "uncordon", "drain", "undrain", "silence", "come back", "come back"])
MORE: dict[str, Json] = {
    "plain": {},
    "disk": {"disks": [{"size": "1Gi"}]},
    "gang": {"gang": "crew"},
    "urgent": {"priority": 5},
}
VERBS = st.sampled_from(sorted(WANTED))
EDITS = st.sampled_from(["size", "size", "protection", "disks"])
DOING: dict[str, tuple[st.SearchStrategy[object], ...]] = {
    "create": (PLACES, CORES, KINDS, st.booleans(), KEYS),
    "create_or_fail": (PLACES, CORES),
    "plan_and_create": (PLACES, CORES),
    "power": (WHICH, VERBS, KEYS, MATCHES),
    "migrate": (WHICH, TARGETS, MATCHES),
    "edit": (WHICH, CORES, MATCHES, EDITS),
    "delete": (WHICH, KEYS, MATCHES),
    "operate": (NAMES, DEEDS),
    "limit_red": (st.sampled_from([None, 1, 3, 6]),),
    "rest": (),
}
OFTEN = [
    "create",
    "power",
    "power",
    "migrate",
    "migrate",
    "edit",
    "operate",
    "limit_red",
    "rest",
]  # twice, beside once for each
DEEDS_OF_PEOPLE = st.sampled_from([*DOING, *OFTEN]).flatmap(lambda name: st.tuples(st.just(name), *DOING[name]))
SOFT = {"wrong_state", "migrating"}  # what depends on what the leader and hosts have done by now


def wanted(cores: int, kind: str = "plain") -> Json:
    return {"cpu": str(cores), "memory": "1Gi", **MORE[kind]}


class UserActions(ServiceMachine):
    """Users, operators and hosts, one after the other."""

    @initialize(kinds=st.lists(st.tuples(PLACES, CORES, KINDS), min_size=3, max_size=6))
    def begin(self, kinds: list[tuple[Place, int, str]]) -> None:
        for hand in self.hands.values():
            self.run(hand.join())
        assert self.ask("POST", "/v1/projects", json={"name": "red"}).status_code == 201
        assert self.ask("POST", "/v1/gangs", json={"name": "crew", "min_count": 2}).status_code == 201
        for place, cores, kind in kinds:
            self.create(place, cores, kind, False, "")

    @rule(deed=DEEDS_OF_PEOPLE)
    def people(self, deed: tuple[Any, ...]) -> None:
        """Let one user do one thing: a single rule, so that every story has all actions."""
        name, *words = deed
        if self.vms or name not in ("power", "migrate", "edit", "delete"):
            getattr(self, name)(*words)

    # -- users -----------------------------------------------------------------------------------------------------

    def create(self, place: Place, cores: int, kind: str, is_protected: bool, key: str) -> None:
        kind = "plain" if place[0] == "red" and kind == "gang" else kind
        body = {"project": place[0], "name": place[1], "spec": wanted(cores, kind), "protected": is_protected}
        answer = self.ask_once("POST", "/v1/vms", body, key)
        if answer is not None:
            self._created(place, cores, kind, is_protected, answer)

    def _created(self, place: Place, cores: int, kind: str, is_protected: bool, answer: httpx.Response) -> None:
        if place in self.vms:
            assert (answer.status_code, answer.json()["code"]) == (409, "name_taken")
            return
        assert answer.status_code == 202, answer.text
        known = Known(answer.json()["vm"]["id"], place[0], cores, answer.headers["etag"], has_disk=kind == "disk")
        known.gang = "crew" if kind == "gang" else ""
        known.is_protected = is_protected
        self.vms[place] = known

    def create_or_fail(self, place: Place, cores: int) -> None:
        """Who must be placed at once is, if there is room for him, and refused if there is none."""
        self.settle()
        fits = self._fits(place[0], cores)
        body = {"project": place[0], "name": place[1], "spec": wanted(cores), "on_unplaceable": "fail"}
        answer = self.ask("POST", "/v1/vms", json=body)
        if len(self.fleet.silent) == len(HOSTS):
            assert answer.json()["code"] in ("no_available_agents", "name_taken"), answer.text
        elif place in self.vms or fits:
            self._created(place, cores, "plain", False, answer)
            if answer.status_code == 202:
                assert answer.json()["vm"]["host"] in set(HOSTS) - self.fleet.closed
        else:
            assert (answer.status_code, answer.json()["code"]) == (409, "insufficient_resources")
            assert answer.json()["decision"]["chosen"] is None

    def _fits(self, project: str, cores: int) -> bool:
        if project == "red" and self._cores_of_red() + cores > self.quota.cores:
            return False
        hosts = self.look("/v1/hosts")["items"]
        free = [
            one["may_give"]["cpu_millis"] - one["used"]["cpu_millis"]
            for one in hosts
            if one["name"] not in self.fleet.closed
        ]
        return any(millis >= cores * 1000 for millis in free)

    def power(self, which: int, verb: str, key: str, match: str) -> None:
        known = self._one(which)
        answer = self._wish(known, verb, "POST", f"/v1/vms/{known.id}/{verb}", {}, key, match)
        if answer is not None:
            known.power = WANTED[verb]
            assert answer.json()["vm"]["power"] == known.power

    def migrate(self, which: int, to: str, match: str) -> None:
        known = self._one(which)
        self.settle()
        if self.is_gone(known):
            return
        before = self.look(f"/v1/vms/{known.id}")["host"]
        body = {"host": to} if to else {}
        answer = self._wish(known, "migrate", "POST", f"/v1/vms/{known.id}/migrate", body, "", match, to)
        if answer is None:
            return
        known.may_move = True
        self.moves.append(answer.json()["operation"]["id"])
        if self.fleet.closed:
            return
        self.settle()
        moved = self.look(f"/v1/operations/{answer.json()['operation']['id']}")["state"] == "done"
        after = self.look(f"/v1/vms/{known.id}")["host"]
        assert after == before if not moved else after != before
        assert not (moved and to) or after == to

    def edit(self, which: int, cores: int, match: str, what: str) -> None:
        """Resize a VM, protect it, or change what is fixed."""
        known = self._one(which)
        path = f"/v1/vms/{known.id}"
        if what == "size":
            if self._wish(known, "resize", "PATCH", path, {"spec": {"cpu": str(cores)}}, "", match) is not None:
                known.cores = cores
        elif what == "protection":
            if self._wish(known, "protect", "PATCH", path, {"protected": cores > 2}, "", match) is not None:
                known.is_protected = cores > 2
        elif known.power != "absent" and not known.may_move:
            answer = self.ask("PATCH", path, json={"spec": {"disks": [{"size": "7Gi"}]}})
            assert answer.json()["code"] in ("invalid_input", "migrating"), answer.text

    def delete(self, which: int, key: str, match: str) -> None:
        known = self._one(which)
        if self._wish(known, "delete", "DELETE", f"/v1/vms/{known.id}", None, key, match) is not None:
            known.power = "absent"

    def _one(self, which: int) -> Known:
        return [self.vms[place] for place in sorted(self.vms)][which % len(self.vms)]

    def _wish(
        self,
        known: Known,
        verb: str,
        method: str,
        path: str,
        body: Json | None,
        key: str,
        match: str,
        target: str = "",
    ) -> httpx.Response | None:
        """Ask for a change of a VM; return the answer if it was taken now, None if it was not, and rightly so."""
        if match:
            self.settle()
            if self.is_gone(known):
                return None
        seen, is_vague = self.look(f"/v1/vms/{known.id}"), not self.is_settled or known.may_move
        answer = (
            self.ask_matching(method, known, path, body, match) if match else self.ask_once(method, path, body, key)
        )
        if answer is None:
            return None
        codes = refusals(known, seen, verb, target)
        is_vague = is_vague or seen["state"] == "unknown"
        if answer.status_code >= 400:
            code = answer.json()["code"]
            assert code in codes or (is_vague and code in SOFT), (verb, answer.text, seen)
            return None
        assert answer.status_code in (200, 202), answer.text
        assert not codes or (is_vague and codes <= SOFT), (verb, codes, seen)
        known.etag = answer.headers["etag"]
        return answer

    def plan_and_create(self, place: Place, cores: int) -> None:
        """A plan changes nothing, and is what then happens."""
        self.settle()
        if place in self.vms:
            return
        seq = self.service.context.books.seq
        spec = wanted(cores)
        asked = {"vms": [{"project": place[0], "name": place[1], "spec": spec}]}
        planned = self.ask("POST", "/v1/plan", json=asked).json()
        assert planned["seq"] == seq == self.service.context.books.seq
        answer = self.ask("POST", "/v1/vms", json={"project": place[0], "name": place[1], "spec": spec})
        self._created(place, cores, "plain", False, answer)
        self.settle()
        assert self.look(f"/v1/vms/{self.vms[place].id}")["host"] == planned["placements"][0]["host"]

    # -- operators -------------------------------------------------------------------------------------------------

    def operate(self, host: str, what: str) -> None:
        """Let something happen to a host."""
        if what in ("cordon", "uncordon", "drain", "undrain"):
            answer = self.ask("POST", f"/v1/hosts/{host}/{what}")
            which, field = (self.fleet.cordoned, "cordoned") if "cordon" in what else (self.fleet.draining, "draining")
            self.fleet.say(which, host, is_so=not what.startswith("un"))
            assert (answer.status_code, answer.json()[field]) == (200, host in which)
        elif what == "silence":
            self._silence(host)
        else:
            self.is_settled = False
            self.run(self.hands[host].register())
            self.fleet.say(self.fleet.silent, host, is_so=False)

    def _silence(self, host: str) -> None:
        unsure = self.ask("POST", f"/v1/hosts/{host}/force-offline", json={"confirm": "another"})
        assert (unsure.status_code, unsure.json()["code"]) == (400, "not_confirmed")
        answer = self.ask("POST", f"/v1/hosts/{host}/force-offline", json={"confirm": host})
        assert (answer.status_code, answer.json()["state"]) == (200, "offline")
        self.hands[host].is_silent = True
        self.fleet.say(self.fleet.silent, host, is_so=True)

    def limit_red(self, cores: int | None) -> None:
        has_one = self.quota.cores != float("inf")
        if cores is None:
            answer = self.ask("DELETE", "/v1/quotas/red")
            assert answer.status_code == (204 if has_one else 404), answer.text
        elif has_one:
            assert self.ask("PATCH", "/v1/quotas/red", json={"max": {"cpu": cores}}).status_code == 200
        else:
            assert self.ask("POST", "/v1/quotas", json={"project": "red", "max": {"cpu": cores}}).status_code == 201
        self.quota.allow(float("inf") if cores is None else cores)

    def rest(self) -> None:
        self.settle()

    # -- what always holds -----------------------------------------------------------------------------------------

    @invariant()
    def lists_show_what_was_promised(self) -> None:
        listed = {(one["project"], one["name"]): one for one in self.look("/v1/vms")["items"]}
        for place, known in list(self.vms.items()):
            if known.power == "absent" and place not in listed:
                del self.vms[place]
        assert {place: one["id"] for place, one in listed.items()} == {place: vm.id for place, vm in self.vms.items()}
        for place, one in listed.items():
            known = self.vms[place]
            assert (one["power"], one["protected"]) == (known.power, known.is_protected), one
            assert one["spec"]["cpu"] == str(known.cores), one
        self.gang.note({vm.id for vm in self.vms.values() if vm.gang})
        if self.is_settled:
            self._check_rest(listed)

    def _check_rest(self, listed: dict[Place, Json]) -> None:
        for place, one in listed.items():
            self._check_one(self.vms[place], one)
        self.fleet.look({one["id"]: {one["host"], one["moving_to"]} - {None} for one in listed.values()})
        self.quota.check(self._cores_of_red())
        for name in self.fleet.draining - self.fleet.silent:
            staying = {
                (one["project"], one["name"])
                for place, one in listed.items()
                if one["host"] == name
                and one["state"] != "migrating"
                and (self.vms[place].has_disk or (one["power"], one["state"]) == ("paused", "paused"))
            }
            stuck = {(one["project"], one["name"]) for one in self.look(f"/v1/hosts/{name}")["stuck"]}
            assert staying <= stuck, (staying, stuck)
            assert {listed[place]["host"] for place in stuck} <= {name}

    def _check_one(self, known: Known, one: Json) -> None:
        """At rest a VM is as it was asked for, or says why not."""
        if one["host"] in self.fleet.silent:
            assert one["state"] == "unknown", one
            return
        assert known.power != "absent", one
        if known.gang and one["host"]:
            assert self.gang.was_whole, one
        if one["state"] == "migrating":
            assert one["moving_to"] in self.fleet.silent, one
        elif one["state"] == "pending" or one["why"]:
            assert one["why"], one
        else:
            assert one["state"] == one["power"], one
            assert one["observed_generation"] == one["generation"], one

    def _cores_of_red(self) -> float:
        """Return what red's VMs have of their hosts, as those count."""
        red = {vm.id for vm in self.vms.values() if vm.project == "red"}
        return sum(max(hand.cores_of(vm) for hand in self.hands.values()) for vm in red)

    @invariant()
    def nothing_is_promised_twice(self) -> None:
        for one in self.look("/v1/hosts")["items"]:
            assert one["used"]["cpu_millis"] <= HOSTS[one["name"]] * 1000, one
        for hand in self.hands.values():
            assert hand.peak <= hand.cores * 1000, hand.here
