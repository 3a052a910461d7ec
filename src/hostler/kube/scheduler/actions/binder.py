"""Binds: a bounded pool of calls, each for one pod, one uid and one node, tracked until its outcome is known.

States of a bind:

    submit ──▶ waiting ──stale, withdrawn or stopping──▶ BindFailed     nothing was sent
                │    ▲
                │    └── 429: sent again to the same node, before all others
                ▼
              in flight ──2xx──▶ GuestBound
                │    └── no connection, or a definite 4xx ──▶ BindFailed     the server did nothing
                │
                │ time-out, lost response, 5xx, conflict
                ▼
              unknown: wait until the bind cannot be executed any more, then read the pod until the server answers
                ├── it has a node ──▶ GuestBound, with that node
                └── no node, gone, or another uid ──▶ BindFailed

Invariant: a bind has one outcome, and a second node is never tried while the first bind may still be executed. A bind
without a response may be executed until the time-out that it carried has passed; only after that does reading the pod
prove anything. So ``BindFailed`` is sent only when the server cannot bind the pod any more. Each submitted bind gives
exactly one of ``GuestBound`` and ``BindFailed``, except after ``abort``: then the lease is lost, and the next term
lists the cluster again.

Concurrency: everything runs on one event loop, and ``_pump`` has no await, so the checks before a send and the send are
one step. A bind keeps its place in the window until its outcome is known, so a silent server slows us down. The pod and
the node are checked again just before sending: if the pod has left or the node has changed, the decision is dropped.
Used by ``loop``.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

import msgspec

from hostler.errors import HostlerError
from hostler.kube.api.client import KubeClient
from hostler.kube.api.failures import ApiError
from hostler.kube.api.resources import PODS
from hostler.kube.facts.views import PodView
from hostler.kube.facts.watched_cluster import WatchedCluster
from hostler.kube.scheduler.actions.pressure import Breaker, Window
from hostler.manifests.pods.gpus import GPU_INDEX
from hostler.model import Bind, BindFailed, Event, GuestBound
from hostler.runtime.clock import Clock
from hostler.runtime.transport import TransportError
from hostler.telemetry.log import QUIET, Log

__all__ = ["BindCall", "Binder", "BinderCounts"]

BindCall: TypeAlias = Callable[[PodView, str, Mapping[str, str], float], Awaitable[None]]  # node, annotations, seconds

_SECOND = 1_000_000_000
_MARGIN_S = 0.5  # after the time-out that a bind carried, for its way to the server; then its outcome is read
_READ_AGAIN_S = 1.0
_UNSEEN_NS = 5 * _SECOND  # how long a bind is remembered until the watch shows it


class BinderCounts(msgspec.Struct):
    """Numbers of binds by outcome."""

    bound: int = 0
    refused: int = 0
    dropped: int = 0  # not sent: the pod or its node changed before
    unknown: int = 0  # outcomes that had to be read
    throttled: int = 0


class _Job(msgspec.Struct):
    """One bind. ``host`` is the node as it was when chosen, ``least`` the gang's minimum at that time."""

    bind: Bind
    host: object
    least: int = 0
    is_sent: bool = False
    is_vain: bool = False  # its node went before the watch showed the pod there
    done: asyncio.Event = msgspec.field(default_factory=asyncio.Event)


class Binder:
    """Carries out binds."""

    def __init__(
        self,
        client: KubeClient,
        cluster: WatchedCluster,
        clock: Clock,
        tell: Callable[[Event], None],
        *,
        most: int,
        timeout_s: float,
        may_write: Callable[[], bool],
        breaker: Breaker,
        on_bound: Callable[[PodView, str], None],
        on_failed: Callable[[PodView, str], None] = lambda pod, why: None,
        call: BindCall | None = None,
        on_room: Callable[[], None] = lambda: None,
        on_task_end: Callable[[asyncio.Task[None]], None] = lambda task: None,
        log: Log = QUIET,
    ) -> None:
        self.counts = BinderCounts()
        self.to_vanished = 0  # binds that the server accepted although the node was gone
        self.window = Window(most, start=min(most, 32))
        self._client = client
        self._cluster = cluster
        self._clock = clock
        self._tell = tell
        self._timeout_s = timeout_s
        self._may_write = may_write
        self._breaker = breaker
        self._on_bound = on_bound
        self._on_failed = on_failed
        self._call = call or self._bind
        self._waiting: deque[_Job] = deque()
        self._jobs: dict[str, _Job] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._in_flight = 0
        self._recent: OrderedDict[str, tuple[int, PodView, str]] = OrderedDict()  # recent binds, by uid, oldest first
        self._timer: asyncio.TimerHandle | None = None
        self._on_room = on_room
        self._on_task_end = on_task_end
        self._log = log

    # -- the loop's side -------------------------------------------------------------------------------------------

    @property
    def backlog(self) -> int:
        """Return the number of unfinished binds."""
        return len(self._jobs)

    @property
    def in_flight(self) -> int:
        """Return the number of binds that are sent and not answered."""
        return self._in_flight

    @property
    def has_plenty(self) -> bool:
        """Return whether more than half a window of decided binds waits to be sent."""
        return 2 * len(self._waiting) > self.window.most

    def has(self, uid: str) -> bool:
        """Return whether a pod's bind is unfinished."""
        return uid in self._jobs

    def room(self) -> int:
        """Return how many decisions to make now: a short queue keeps them fresh and in order of priority."""
        if not self._may_write():
            return 0
        if self._breaker.is_open:  # one bind at a time finds out whether the server is back
            wait_s = self._breaker.wait_s(self._clock.now())
            if wait_s > 0:
                self._pump_in(wait_s)
            return 1 if wait_s <= 0 and not self._jobs else 0
        return max(0, 2 * self.window.most - len(self._jobs))

    def submit(self, bind: Bind) -> None:
        """Accept a bind; it is sent when the window allows."""
        job = _Job(bind, self._cluster.hosts.get(bind.host), self._least(bind.uid))
        self._jobs[bind.uid] = job
        self._waiting.append(job)
        self._pump()

    def note_lost_node(self, node: str) -> None:
        """Record that a node is gone: recent binds to it that the watch has not shown were bound to a missing node.

        Nodes can go at any time, also right after a successful bind. The order of events of both watches is only
        approximate.
        """
        for job in self._jobs.values():
            if job.is_sent and job.bind.host == node and not self._is_seen(job.bind.uid):
                job.is_vain = True
        self._tidy()
        for uid, (_, pod, host) in list(self._recent.items()):
            if host == node:
                del self._recent[uid]
                if not self._is_seen(uid):
                    self._count_vain(pod, node)

    def _is_seen(self, uid: str) -> bool:
        """Return whether the watch has shown a pod on a node."""
        pod = self._cluster.pods.get(uid)
        return pod is None or bool(pod.node)

    def _count_vain(self, pod: PodView, node: str) -> None:
        self.to_vanished += 1
        self._log.warn("bound to a node that no longer exists", pod=f"{pod.namespace}/{pod.name}", node=node)

    def _tidy(self) -> None:
        """Forget binds that are no longer recent."""
        since = self._clock.now() - _UNSEEN_NS
        while self._recent and next(iter(self._recent.values()))[0] < since:
            self._recent.popitem(last=False)

    def _least(self, uid: str) -> int:
        """Return how many members a pod's gang needs; 0 if it has none."""
        pod = self._cluster.pods.get(uid)
        gang = self._cluster.gangs.get(pod.group) if pod is not None and pod.group else None
        return gang.min_count if gang is not None else 0

    def withdraw(self, uid: str) -> bool:
        """Cancel a bind that was not sent; return whether that was possible."""
        job = self._jobs.get(uid)
        if job is None or job.is_sent:
            return False
        self._waiting.remove(job)
        self._finish(job, BindFailed(uid=uid, host=job.bind.host, reason="it was evicted before it was bound"))
        return True

    async def wait_for_outcome(self, uid: str) -> None:
        """Wait until the outcome of a pod's bind, if there is one, is known."""
        job = self._jobs.get(uid)
        if job is not None:
            await job.done.wait()

    async def drain(self, seconds: float) -> bool:
        """Send nothing more and wait for sent binds, at most this long; return whether all outcomes are known."""
        while self._waiting:
            job = self._waiting.popleft()
            self._finish(job, BindFailed(uid=job.bind.uid, host=job.bind.host, reason="the scheduler is stopping"))
        try:
            async with asyncio.timeout(seconds):
                while self._tasks:
                    await asyncio.wait(set(self._tasks))
        except TimeoutError:
            return False
        return True

    async def abort(self) -> None:
        """Drop everything at once: another scheduler may write now."""
        if self._timer is not None:
            self._timer.cancel()
        self._waiting.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- sending ---------------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Send what the window, the breaker and the mandate allow."""
        now = self._clock.now()
        while self._waiting and self._in_flight < self.window.size:
            wait_s = max(self.window.paused_for(now), self._breaker.wait_s(now), 0.0 if self._may_write() else 0.5)
            if wait_s > 0:
                self._pump_in(wait_s)
                return
            job = self._waiting.popleft()
            why = self._why_stale(job)
            if why:
                self.counts.dropped += 1
                self._finish(job, BindFailed(uid=job.bind.uid, host=job.bind.host, reason=why))
                continue
            job.is_sent = True  # before the task starts: from here on it cannot be withdrawn
            self._in_flight += 1
            self._breaker.begin()
            # The pod is looked up now: it may be gone when the task starts.
            task = asyncio.get_running_loop().create_task(self._carry_out(job, self._cluster.pods[job.bind.uid]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            task.add_done_callback(self._on_task_end)

    def _pump_in(self, wait_s: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._pump()
        self._on_room()

    def _why_stale(self, job: _Job) -> str:
        """Return why a decision no longer holds, or an empty string."""
        pod = self._cluster.pods.get(job.bind.uid)
        if pod is None or pod.is_leaving:
            return "the pod is being deleted"
        if pod.node:
            return f"the pod already runs on {pod.node}"
        least = min(job.least, self._least(pod.uid))
        if least and self._cluster.is_short(pod.group, least):
            return f"its gang {pod.group} has lost members"
        host = self._cluster.hosts.get(job.bind.host)
        if host is None:
            return f"node {job.bind.host} is gone"
        return "" if host is job.host else f"node {job.bind.host} changed since it was chosen"

    async def _carry_out(self, job: _Job, pod: PodView) -> None:
        bind = job.bind
        try:
            outcome = await self._send(job, pod)
        finally:
            self._in_flight -= 1  # only now: a bind with an unknown outcome keeps its place in the window
        if outcome is None:  # throttled: the server did nothing; the same node again, before all others
            job.is_sent = False
            self._waiting.appendleft(job)
            self._pump()
            return
        if isinstance(outcome, GuestBound):
            self._bound(job, pod, outcome.host)
        else:
            self.counts.refused += 1
            self._report(bind, outcome)
        self._finish(job, outcome)
        self._pump()

    def _bound(self, job: _Job, pod: PodView, node: str) -> None:
        self.counts.bound += 1
        self._tidy()
        if job.is_vain:
            self._count_vain(pod, node)
        else:
            self._recent[pod.uid] = (self._clock.now(), pod, node)
        if self.counts.bound == 1:
            self._log.info("first pod bound", pod=f"{pod.namespace}/{pod.name}", node=node)
        elif self._log.has_details:
            self._log.detail("bound", pod=f"{pod.namespace}/{pod.name}", node=node)
        self._on_bound(pod, node)

    def _report(self, bind: Bind, outcome: Event) -> None:
        """Report a failed bind to the pod's owner, if the pod still waits."""
        pod = self._cluster.pods.get(bind.uid)
        if isinstance(outcome, BindFailed):
            name = f"{pod.namespace}/{pod.name}" if pod is not None else bind.guest
            self._log.warn("bind failed", pod=name, node=bind.host, why=outcome.reason)
            if pod is not None and not pod.node and not pod.is_leaving:
                self._on_failed(pod, f"binding to node {bind.host} failed: {outcome.reason}")

    async def _send(self, job: _Job, pod: PodView) -> Event | None:
        bind, sent_at = job.bind, self._clock.now()
        try:
            await self._call(pod, bind.host, _annotations(bind), self._timeout_s)
        except ApiError as error:
            return await self._handle_error(job, pod, error, sent_at)
        except TransportError as error:
            self._breaker.fail(self._clock.now())
            self.window.shrink(self._clock.now())
            if not error.may_have_acted:  # nothing was sent, so another node may be tried at once
                return BindFailed(uid=bind.uid, host=bind.host, reason=error.message)
            return await self._find_out(job, pod, error.message, sent_at + self._patience_ns())
        except HostlerError as error:  # an extender that binds in our place rejected the pod
            self._breaker.succeed()
            return BindFailed(uid=bind.uid, host=bind.host, reason=error.message)
        except Exception as error:  # a bug of ours must not leave the pod without an outcome
            why = f"{type(error).__name__}: {error}"
            return await self._find_out(job, pod, why, sent_at + self._patience_ns())
        self._breaker.succeed()
        self.window.grow()
        return GuestBound(uid=bind.uid, host=bind.host)

    async def _bind(self, pod: PodView, node: str, annotations: Mapping[str, str], seconds: float) -> None:
        await self._client.bind(pod.namespace, pod.name, pod.uid, node, annotations=annotations, timeout_s=seconds)

    async def _handle_error(self, job: _Job, pod: PodView, error: ApiError, sent_at: int) -> Event | None:
        bind, now = job.bind, self._clock.now()
        if error.status == 429:
            self._breaker.succeed()
            self.counts.throttled += 1
            self.window.shrink(now, error.retry_after_s or 1.0)
            return None
        if error.status >= 500 or error.may_have_acted:
            if error.is_away:
                self._breaker.fail(now)
            else:
                self._breaker.succeed()
            self.window.shrink(now, error.retry_after_s or 0.0)
            return await self._find_out(job, pod, error.message, sent_at + self._patience_ns())
        self._breaker.succeed()
        if error.is_conflict:  # bound by another scheduler, or by this call delivered twice; or another pod
            return await self._find_out(job, pod, error.message, now)  # final, so it can be read at once
        return BindFailed(uid=bind.uid, host=bind.host, reason=error.message)

    def _patience_ns(self) -> int:
        return int((self._timeout_s + _MARGIN_S) * _SECOND)

    async def _find_out(self, job: _Job, pod: PodView, why: str, not_before: int) -> Event:
        """Read the pod once the bind cannot be executed any more; repeat until the server answers."""
        bind = job.bind
        self.counts.unknown += 1
        # Read too early, an unbound pod proves nothing: the server may still execute the bind.
        await asyncio.sleep(max(0, not_before - self._clock.now()) / _SECOND)
        while True:
            try:
                found = await self._client.get(PODS, pod.namespace, pod.name)
            except ApiError as error:
                if error.is_gone:
                    return BindFailed(uid=bind.uid, host=bind.host, reason="the pod is gone")
                await asyncio.sleep(max(_READ_AGAIN_S, error.retry_after_s or 0.0))
            except Exception:  # no response, or an unreadable one
                await asyncio.sleep(_READ_AGAIN_S)
            else:
                break
        self._breaker.succeed()
        if found.metadata.uid != pod.uid:
            return BindFailed(uid=bind.uid, host=bind.host, reason="the pod is gone; another one has its name")
        if found.spec.node_name:
            return GuestBound(uid=bind.uid, host=found.spec.node_name)
        return BindFailed(uid=bind.uid, host=bind.host, reason=why)

    def _finish(self, job: _Job, outcome: Event) -> None:
        self._jobs.pop(job.bind.uid, None)
        job.done.set()
        self._tell(outcome)
        self._on_room()


def _annotations(bind: Bind) -> Mapping[str, str]:
    """Return the chosen devices as the annotation that is set together with the node."""
    return {GPU_INDEX: "-".join(str(index) for index in bind.devices)} if bind.devices else {}
