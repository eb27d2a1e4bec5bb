"""A bounded table of counts by key: how often a key was seen, resident or not.

Entries of a `KeyTable` in two recency lists: keys seen once, and keys seen more often.
Two ways of staying within the bound: `count_recent` drops the least recently counted
key (vLLM's tracker), `count_hot` drops every key seen once, the newcomer included, as
soon as the bound would be passed (vllm-marconi-offload's tracker). All operations are
O(1) amortised; 28 bytes an entry and 4 to 8 bytes of heads of hash chains.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hotset.policies.arrays import Int32Array, Int64Array, KeyArray
from hotset.policies.jit import inlined
from hotset.policies.key_table import (
    NO_ENTRY,
    KeyTable,
    make_key_table,
    table_clear,
    table_erase,
    table_find,
    table_put,
    table_touch,
)
from hotset.policies.linked import NEWER, clear_links, link_newest, make_links, unlink

_SIZE, _BOUND, _FREE_HEAD, _FRESH, _ONCE = 0, 1, 2, 3, 4


class CountTable(NamedTuple):
    """Arrays of one table of N entries."""

    keys: KeyTable
    seen: Int32Array  # int32[N], at least 1 where in use, unless halved
    links: Int32Array  # int32[N + 2, 2]: list 0 seen once, list 1 more often
    free: Int32Array  # int32[N]: stack of given-back entries
    # int64[5]: size, bound, given-back entries, fresh entries, entries in list 0
    numbers: Int64Array


def make_counts(bound: int) -> CountTable:
    """Return an empty table that never holds more than ``bound`` keys."""
    return CountTable(
        keys=make_key_table(bound),
        seen=np.zeros(bound, np.int32),
        links=make_links(bound, 2),
        free=np.zeros(bound, np.int32),
        numbers=np.array([0, bound, 0, 0, 0], np.int64),
    )


@inlined
def counts_clear(table: CountTable) -> None:
    """Forget every key."""
    table_clear(table.keys)
    clear_links(table.links, table.seen.shape[0])
    table.numbers[_SIZE] = 0
    table.numbers[_FREE_HEAD] = 0
    table.numbers[_FRESH] = 0
    table.numbers[_ONCE] = 0


@inlined
def counts_touch(table: CountTable, keys: KeyArray) -> None:
    """Bring what is known of keys near, all at once, before they are counted."""
    table_touch(table.keys, keys)


@inlined
def count_of(table: CountTable, key: int) -> int:
    """Return the count of a key, 0 where it is not in the table."""
    entry = table_find(table.keys, key)
    if entry == NO_ENTRY:
        return 0
    return table.seen[entry]


@inlined
def _drop(table: CountTable, entry: int) -> None:
    """Remove an entry."""
    table_erase(table.keys, entry)
    unlink(table.links, entry)
    table.free[table.numbers[_FREE_HEAD]] = entry
    table.numbers[_FREE_HEAD] += 1
    table.numbers[_SIZE] -= 1


@inlined
def _add(table: CountTable, key: int, which: int) -> None:
    if table.numbers[_FREE_HEAD] > 0:
        table.numbers[_FREE_HEAD] -= 1
        entry = int(table.free[table.numbers[_FREE_HEAD]])
    else:
        entry = table.numbers[_FRESH]
        table.numbers[_FRESH] += 1
    table_put(table.keys, key, entry)
    table.seen[entry] = 1
    link_newest(table.links, table.seen.shape[0] + which, entry)
    table.numbers[_SIZE] += 1


@inlined
def count_known(table: CountTable, key: int) -> int:
    """Count a key if it is in the table, most recent now; return its count or 0."""
    entry = table_find(table.keys, key)
    if entry == NO_ENTRY:
        return 0
    table.seen[entry] += 1
    unlink(table.links, entry)
    link_newest(table.links, table.seen.shape[0] + 1, entry)
    return table.seen[entry]


@inlined
def count_recent(table: CountTable, key: int) -> int:
    """Count a key once more; the least recently counted key makes room."""
    count = count_known(table, key)
    if count > 0:
        return count
    if table.numbers[_SIZE] >= table.numbers[_BOUND]:
        _drop_oldest(table)
    _add(table, key, 1)
    return 1


@inlined
def count_up_to(table: CountTable, key: int, most: int) -> None:
    """Count a key as `count_recent` does, but not beyond ``most``."""
    count_recent(table, key)
    entry = table_find(table.keys, key)
    table.seen[entry] = min(table.seen[entry], most)


@inlined
def counts_halve(table: CountTable) -> None:
    """Halve every count; a key may be left with 0 and stays in the table."""
    for entry in range(table.numbers[_FRESH]):
        table.seen[entry] >>= 1


@inlined
def count_offer(table: CountTable, keys: Int64Array) -> None:
    """Count every offered key once; keys of the offer do not push each other out.

    Known keys are counted first. A new key then takes the place of the least
    recent key that is not part of this offer's known keys, or goes uncounted.
    """
    num_known = 0
    for i in range(keys.shape[0]):
        if count_known(table, keys[i]) > 0:
            num_known += 1
    replaceable = table.numbers[_SIZE] - num_known
    for i in range(keys.shape[0]):
        if count_of(table, keys[i]) > 0:
            continue
        if table.numbers[_SIZE] >= table.numbers[_BOUND]:
            if replaceable <= 0:
                continue
            _drop_oldest(table)
            replaceable -= 1
        _add(table, keys[i], 1)


@inlined
def count_hot(table: CountTable, key: int) -> int:
    """Count a key once more; passing the bound drops every key seen once."""
    count = count_known(table, key)
    if count > 0:
        table.numbers[_ONCE] -= count == 2
        return count
    if table.numbers[_SIZE] + 1 > table.numbers[_BOUND]:
        # The new key would be the first to go: it was seen once, like the rest.
        _drop_once(table)
        return 0
    _add(table, key, 0)
    table.numbers[_ONCE] += 1
    return 1


@inlined
def _drop_once(table: CountTable) -> None:
    """Drop every key seen once."""
    once = table.seen.shape[0]
    if 2 * table.numbers[_ONCE] < table.numbers[_SIZE]:
        while table.links[once, NEWER] != once:
            _drop(table, int(table.links[once, NEWER]))
    else:
        # Most keys go, so those that stay are entered anew.
        table_clear(table.keys)
        entry = int(table.links[once + 1, NEWER])
        while entry != once + 1:
            table_put(table.keys, table.keys.key[entry], entry)
            entry = int(table.links[entry, NEWER])
        entry = int(table.links[once, NEWER])
        while entry != once:
            table.free[table.numbers[_FREE_HEAD]] = entry
            table.numbers[_FREE_HEAD] += 1
            entry = int(table.links[entry, NEWER])
        table.links[once] = once
        table.numbers[_SIZE] -= table.numbers[_ONCE]
    table.numbers[_ONCE] = 0


@inlined
def _drop_oldest(table: CountTable) -> None:
    sentinel = table.seen.shape[0] + 1
    _drop(table, int(table.links[sentinel, NEWER]))
