"""The native replay loop of a plain cache: no engine in front, no clock.

Every request looks its blocks up, stores what it misses and uses what it finds, at one
moment. Its own resident blocks are protected while it stores.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hotset.policies.admission import (
    admission_keep,
    admission_on_lookup,
    admission_on_offer,
)
from hotset.policies.arrays import Float64Array, Int32Array, Int64Array, KeyArray
from hotset.policies.jit import kernel
from hotset.policies.request import CUT, HIT_BLOCKS, REQUEST_FIELDS, SCRATCH
from hotset.policies.slots import EVICTED, STORED, Slots, block, store, unblock
from hotset.policies.verbs import NO_LINKS, on_finish, on_hit, on_ready, on_request

# Fields of Books.counts.
REQUESTS = 0
ACCESSES = 1
INPUT_TOKENS = 2
HIT_BLOCKS_TOTAL = 3
HIT_TOKENS = 4
HIT_REQUESTS = 5
STORES = 6
EVICTIONS = 7
GPU_HIT_TOKENS = 8
REFUSED_STORES = 9
NUM_COUNTS = 10

BY_REQUEST = 0
BY_KEY = 1
BY_SECOND = 2


class Stream(NamedTuple):
    """The requests that the loop reads."""

    offsets: Int64Array  # int64[R + 1], where each request's accesses begin
    ids: KeyArray  # integer[A], block ids 0 to U - 1
    input_tokens: Int64Array  # int64[R]
    arrival_s: Float64Array  # float64[R]
    features: Float64Array  # float64[R, REQUEST_FIELDS]


class Scratch(NamedTuple):
    """Room for one request of N blocks; kernels do not allocate."""

    found: Int32Array  # int32[N]
    used: Int32Array  # int32[N]
    victims: Int32Array  # int32[N]
    victim_keys: Int64Array  # int64[N]
    missing: KeyArray  # integer[N], of the ids' type
    depths: Int64Array  # int64[N]
    request: Float64Array  # float64[REQUEST_FIELDS]
    outcome: Int64Array  # int64[2]


def make_scratch(offsets: Int64Array, ids: KeyArray) -> Scratch:
    """Return room for the longest request."""
    longest = int(np.diff(offsets).max(initial=1))
    return Scratch(
        found=np.empty(longest, np.int32),
        used=np.empty(longest, np.int32),
        victims=np.empty(longest, np.int32),
        victim_keys=np.empty(longest, np.int64),
        missing=np.empty(longest, ids.dtype),
        depths=np.empty(longest, np.int64),
        request=np.zeros(REQUEST_FIELDS, np.float64),
        outcome=np.zeros(2, np.int64),
    )


class Books(NamedTuple):
    """What the loop writes."""

    slot_of: Int32Array  # int32[U], -1 where a block is not resident
    counts: Int64Array  # int64[NUM_COUNTS], over the measuring window
    hit_tokens: Int64Array  # int64[R]
    keys_used: Float64Array  # float64[1], the clock of policies that count keys


def make_books(num_distinct: int, num_requests: int) -> Books:
    """Return empty books."""
    return Books(
        slot_of=np.full(num_distinct, -1, np.int32),
        counts=np.zeros(NUM_COUNTS, np.int64),
        hit_tokens=np.zeros(num_requests, np.int64),
        keys_used=np.zeros(1, np.float64),
    )


@kernel
def clock(unit: int, r: int, stream: Stream, books: Books) -> float:
    """Return the policy's clock at request r, in its unit."""
    if unit == BY_KEY:
        return books.keys_used[0]
    if unit == BY_SECOND:
        return stream.arrival_s[r]
    return float(r)


@kernel
def start_request(stream: Stream, scratch: Scratch, r: int, hit_blocks: int) -> None:
    """Fill in what policies are told of request r."""
    for field in range(REQUEST_FIELDS):
        scratch.request[field] = stream.features[r, field]
    scratch.request[HIT_BLOCKS] = hit_blocks
    scratch.request[SCRATCH] = 0.0
    scratch.request[CUT] = 0.0


@kernel
def gather(books: Books, keys: KeyArray, out: Int32Array) -> int:
    """Write the slots of resident keys to ``out``, in order; return how many."""
    found = 0
    for i in range(keys.shape[0]):
        slot = books.slot_of[keys[i]]
        if slot >= 0:
            out[found] = slot
            found += 1
    return found


@kernel
def settle_store(books: Books, scratch: Scratch, taken: Int32Array) -> tuple[int, int]:
    """Enter a store's outcome into the books; return how many came and went."""
    stored, evicted = scratch.outcome[STORED], scratch.outcome[EVICTED]
    for i in range(evicted):
        books.slot_of[scratch.victim_keys[i]] = -1
    for i in range(stored):
        books.slot_of[scratch.missing[i]] = taken[i]
    books.keys_used[0] += stored
    return stored, evicted


@kernel
def count_request(
    stream: Stream, books: Books, r: int, hit_blocks: int, hit_tokens: int
) -> None:
    """Count a request that is in the measuring window."""
    counts = books.counts
    counts[REQUESTS] += 1
    counts[ACCESSES] += stream.offsets[r + 1] - stream.offsets[r]
    counts[INPUT_TOKENS] += stream.input_tokens[r]
    counts[HIT_BLOCKS_TOTAL] += hit_blocks
    counts[HIT_TOKENS] += hit_tokens
    counts[HIT_REQUESTS] += hit_tokens > 0


@kernel
def replay_plain(
    policy: Any,
    admission: Any,
    slots: Slots,
    stream: Stream,
    books: Books,
    scratch: Scratch,
    unit: int,
    block_tokens: int,
    first_measured: int,
    start: int,
    stop: int,
) -> None:
    """Replay requests ``start`` to ``stop`` - 1."""
    offsets, slot_of = stream.offsets, books.slot_of
    found, used, request = scratch.found, scratch.used, scratch.request
    missing, depths = scratch.missing, scratch.depths
    for r in range(start, stop):
        keys = stream.ids[offsets[r] : offsets[r + 1]]
        n = keys.shape[0]
        resident = 0
        wanted = 0
        for i in range(n):
            slot = slot_of[keys[i]]
            found[i] = slot
            if slot >= 0:
                used[resident] = slot
                resident += 1
            else:
                missing[wanted] = keys[i]
                depths[wanted] = i
                wanted += 1
        run = depths[0] if wanted > 0 else n

        start_request(stream, scratch, r, run)
        on_request(policy, keys, found[:n], clock(unit, r, stream, books), request)
        admission_on_lookup(admission, keys[: min(run + 1, n)])
        admission_on_offer(admission, keys)
        wanted = admission_keep(admission, missing, depths, wanted)

        block(slots, used[:resident])
        store(
            policy,
            NO_LINKS,
            slots,
            missing[:wanted],
            depths[:wanted],
            clock(unit, r, stream, books),
            request,
            False,
            used[resident:],
            scratch.victims,
            scratch.victim_keys,
            scratch.outcome,
        )
        unblock(slots, used[:resident])
        stored, evicted = settle_store(books, scratch, used[resident:])
        on_ready(policy, used[resident : resident + stored])
        # Heads are used last, so that within a request tails age first.
        on_hit(policy, used[:resident], clock(unit, r, stream, books), request)
        books.keys_used[0] += resident

        remaining = resident + stored
        if resident > run and stored > 0:
            remaining = gather(books, keys, used)
        on_finish(policy, used[:remaining], clock(unit, r, stream, books), request)

        hit_tokens = min(run * block_tokens, stream.input_tokens[r])
        books.hit_tokens[r] = hit_tokens
        if r >= first_measured:
            count_request(stream, books, r, run, hit_tokens)
            books.counts[STORES] += stored
            books.counts[EVICTIONS] += evicted
