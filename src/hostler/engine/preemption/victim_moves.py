"""Victims that move to another host instead of ending, and the room that is held for them there.

    evicting ──start_move──▶ held         room at the destination is held against everybody
    held ──its replacement arrives──▶ moving     the replacement has the room; both ends are booked
    moving ──the victim leaves──▶ over           the move succeeded, or the victim ended otherwise
    held, moving ──the move fails──▶ unmoved     the next step evicts the victim, if a preemptor still waits for it

Invariant: a hold exists exactly while a move has no replacement and its destination is there.
"""

from __future__ import annotations

from hostler.engine.cluster.holds import ALWAYS, Hold
from hostler.engine.state.nominations import MOVE, VictimMove
from hostler.engine.state.state import State
from hostler.model import Guest

__all__ = ["end_move", "hold_destination", "note_replacement", "replaced_by", "replacements", "start_move"]


def start_move(state: State, uid: str, host: str) -> None:
    """Let a victim move to a host, and hold its room there."""
    state.moves[uid] = VictimMove(host)
    hold_destination(state, uid)


def hold_destination(state: State, uid: str) -> None:
    """Hold the room of a moving victim, by its present shape, until its replacement has it."""
    move = state.moves.get(uid)
    row = state.cluster.row_of.get(move.host) if move is not None else None
    if move is None or row is None or move.replacement:
        return
    shape = state.shape(state.guests[uid])
    state.cluster.hold(MOVE + uid, Hold(row, shape.amounts, ALWAYS, bool(shape.asks)))


def note_replacement(state: State, guest: Guest) -> None:
    """Note a guest that arrived on a host: if it replaces a moving victim, the held room is its own now."""
    move = state.moves.get(guest.replaces)
    if move is None or move.replacement:
        return
    _release(state, guest.replaces, move)
    state.moves[guest.replaces] = VictimMove(guest.host, guest.uid)


def end_move(state: State, uid: str) -> None:
    """Forget the move of a victim. Its replacement, if there is one, is a guest like others from now on."""
    move = state.moves.pop(uid, None)
    if move is None:
        return
    _release(state, uid, move)
    row = state.cluster.row_of.get(move.host)
    if row is not None:
        state.cluster.touch(row)  # the replacement may be evicted now


def replaced_by(state: State, uid: str) -> str:
    """Return the moving victim that a guest replaces; empty if it replaces none."""
    return next((victim for victim, move in state.moves.items() if move.replacement == uid), "")


def replacements(state: State) -> set[str]:
    """Return the guests that replace moving victims: while both ends have room, neither can be evicted or moved."""
    return {move.replacement for move in state.moves.values() if move.replacement}


def _release(state: State, uid: str, move: VictimMove) -> None:
    row = state.cluster.row_of.get(move.host)
    if row is not None and state.cluster.holds.get(MOVE + uid, row) is not None:
        state.cluster.release_hold(MOVE + uid, row)
        state.note_improvement(row)
