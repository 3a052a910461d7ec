"""The replay kernel: guests arrive, are placed or dropped, and leave, without Python code in between.

Used by ``engine.replay`` for simulations. The agenda is a binary heap of departures by time. Invariant: decisions equal
those of ``decide_run`` with the same facts in between.
"""

from __future__ import annotations

from hostler.engine.kernels.guests import shift_counters
from hostler.engine.kernels.layout import kernel
from hostler.engine.kernels.run import book, pick_devices, refresh_slot, select_row


@kernel
def unbook(hosts, shapes, counters, peers, log, s, h, devices, taken):
    """Take a guest of slot ``s`` off row ``h``, and log the touch: the reverse of ``run.book``. O(R + devices)."""
    for r in range(shapes.request.shape[1]):
        hosts.used[h, r] -= shapes.request[s, r]
    hosts.guests[h] = hosts.used[h, 0]
    hosts.scored[h, 0] -= shapes.scored[s, 0]
    hosts.scored[h, 1] -= shapes.scored[s, 1]
    n = 0
    for a in range(shapes.asks[s]):
        for _ in range(shapes.ask_count[s, a]):
            if n < taken:
                hosts.device_left[h, devices[n]] += shapes.ask_milli[s, a]
            n += 1
    if shapes.tag[s] >= 0:
        hosts.tags[h, shapes.tag[s]] -= 1
    hosts.version[h] += 1
    shift_counters(counters, peers, s, h, -1)
    log.rows[log.end[0] % log.rows.shape[0]] = h
    log.end[0] += 1


@kernel
def push_end(heap_at, heap_guest, size, at, guest):
    """Push a departure onto the agenda, a heap by time, then by guest; return its new size. O(log n)."""
    i = size
    while i > 0:
        up = (i - 1) // 2
        if heap_at[up] < at or (heap_at[up] == at and heap_guest[up] < guest):
            break
        heap_at[i] = heap_at[up]
        heap_guest[i] = heap_guest[up]
        i = up
    heap_at[i] = at
    heap_guest[i] = guest
    return size + 1


@kernel
def pop_end(heap_at, heap_guest, size):
    """Pop the first departure off the agenda; return its new size. O(log n)."""
    size -= 1
    at = heap_at[size]
    guest = heap_guest[size]
    i = 0
    while True:
        down = 2 * i + 1
        if down >= size:
            break
        right = down + 1
        if right < size and (
            heap_at[right] < heap_at[down] or (heap_at[right] == heap_at[down] and heap_guest[right] < heap_guest[down])
        ):
            down = right
        if at < heap_at[down] or (at == heap_at[down] and guest < heap_guest[down]):
            break
        heap_at[i] = heap_at[down]
        heap_guest[i] = heap_guest[down]
        i = down
    heap_at[i] = at
    heap_guest[i] = guest
    return size


@kernel
def replay_run(
    hosts, shapes, policies, cache, counters, peers, log, scratch, slots, draws, arrives, runs, start, stop,
    heap_at, heap_guest, size, out_row, out_devices, out_taken,
):  # fmt: skip
    """Place guests ``start`` to ``stop`` in order; departures due come first. Return the new size of the agenda.

    Guest i has shape ``slots[i]``, arrives at ``arrives[i]`` and stays for ``runs[i]`` (below 0: for ever). Writes its
    row, or -1 if it is dropped, and the devices taken. O(guests * (touched rows + log n)).
    """
    for i in range(start, stop):
        while size > 0 and heap_at[0] <= arrives[i]:
            g = heap_guest[0]
            size = pop_end(heap_at, heap_guest, size)
            unbook(hosts, shapes, counters, peers, log, slots[g], out_row[g], out_devices[g], out_taken[g])
        s = slots[i]
        p = shapes.policy[s]
        refresh_slot(
            hosts, shapes, policies, cache, counters, peers, log, s, scratch.table, scratch.number, scratch.bits
        )
        h = select_row(hosts, policies, cache, peers, s, p, draws[i])
        out_row[i] = h
        if h < 0:
            continue
        taken = pick_devices(hosts, shapes, policies, s, p, h, draws[i], scratch.table, out_devices[i])
        out_taken[i] = max(taken, 0)
        book(hosts, shapes, counters, peers, log, s, h, out_devices[i], taken)
        policies.last_key[p] = hosts.name_key[h]
        if runs[i] >= 0:
            size = push_end(heap_at, heap_guest, size, arrives[i] + runs[i], i)
    return size
