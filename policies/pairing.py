"""Pairing heaps of slots, many of them in one set of arrays: smallest key first.

Each slot is in at most one heap. ``root`` holds the first slot of each heap, or -1.
Keys are float64. Insert is O(1), removal of any slot
O(log n) amortised (Fredman et al., The pairing heap, Algorithmica 1, 1986).

Two changes to the paper's heap keep a single removal cheap where keys come almost in
order, as times do: a slot that is not before the newest one is hung below that one
instead of the root, and the children of a removed slot take its place. Slots inserted
in order form a chain then, whose first is followed by the second.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hotset.policies.arrays import Float64Array, Int32Array
from hotset.policies.jit import inlined

_NIL = -1


class Pairing(NamedTuple):
    """Arrays of K heaps over C slots."""

    root: Int32Array  # int32[K]
    newest: Int32Array  # int32[K], where a later key is hung; valid with a root
    child: Int32Array  # int32[C], first child
    sibling: Int32Array  # int32[C], next sibling
    back: Int32Array  # int32[C], previous sibling, or parent of a first child
    key: Float64Array  # float64[C]


def make_pairing(capacity: int, num_heaps: int) -> Pairing:
    """Return empty heaps."""
    return Pairing(
        root=np.full(num_heaps, _NIL, np.int32),
        newest=np.full(num_heaps, _NIL, np.int32),
        child=np.full(capacity, _NIL, np.int32),
        sibling=np.full(capacity, _NIL, np.int32),
        back=np.full(capacity, _NIL, np.int32),
        key=np.zeros(capacity, np.float64),
    )


@inlined
def _meld(heaps: Pairing, a: int, b: int) -> int:
    """Join two trees and return the smaller root."""
    if a == _NIL:
        return b
    if b == _NIL:
        return a
    if heaps.key[b] < heaps.key[a]:
        a, b = b, a
    first = heaps.child[a]
    heaps.sibling[b] = first
    if first != _NIL:
        heaps.back[first] = b
    heaps.back[b] = a
    heaps.child[a] = b
    return a


@inlined
def _meld_children(heaps: Pairing, slot: int) -> int:
    """Join the children of a slot into one tree, in pairs and then from the last on."""
    paired = int(_NIL)  # chain of joined pairs, last one first
    at = int(heaps.child[slot])
    heaps.child[slot] = _NIL
    while at != _NIL:
        other = int(heaps.sibling[at])
        rest = int(_NIL)
        heaps.sibling[at] = _NIL
        heaps.back[at] = _NIL
        if other != _NIL:
            rest = int(heaps.sibling[other])
            heaps.sibling[other] = _NIL
            heaps.back[other] = _NIL
        joined = int(_meld(heaps, at, other))
        heaps.sibling[joined] = paired
        paired = joined
        at = rest
    tree = int(_NIL)
    while paired != _NIL:
        rest = int(heaps.sibling[paired])
        heaps.sibling[paired] = _NIL
        tree = int(_meld(heaps, tree, paired))
        paired = rest
    return tree


@inlined
def pairing_insert(heaps: Pairing, which: int, slot: int, key: float) -> None:
    """Put a slot that is in no heap into one."""
    heaps.child[slot] = _NIL
    heaps.sibling[slot] = _NIL
    heaps.back[slot] = _NIL
    heaps.key[slot] = key
    root = int(heaps.root[which])
    if root == _NIL:
        heaps.root[which] = slot
        heaps.newest[which] = slot
        return
    newest = int(heaps.newest[which])
    if key >= heaps.key[newest]:
        _meld(heaps, newest, int(slot))
        heaps.newest[which] = slot
    else:
        heaps.root[which] = _meld(heaps, root, int(slot))


@inlined
def pairing_remove(heaps: Pairing, which: int, slot: int) -> None:
    """Take a slot out of the heap that it is in."""
    back = int(heaps.back[slot])
    after = int(heaps.sibling[slot])
    is_newest = heaps.newest[which] == slot
    heaps.sibling[slot] = _NIL
    heaps.back[slot] = _NIL
    tree = int(_meld_children(heaps, slot))
    if back == _NIL:
        heaps.root[which] = tree
        if is_newest:
            heaps.newest[which] = tree
        return
    is_first = heaps.child[back] == slot
    if is_newest:
        heaps.newest[which] = back if is_first else heaps.root[which]
    if tree != _NIL:
        heaps.sibling[tree] = after
        heaps.back[tree] = back
        back_of_after = tree
    else:
        tree = after
        back_of_after = back
    if is_first:
        heaps.child[back] = tree
    else:
        heaps.sibling[back] = tree
    if after != _NIL:
        heaps.back[after] = back_of_after


@inlined
def pairing_clear(heaps: Pairing) -> None:
    """Empty every heap."""
    heaps.root[:] = _NIL
