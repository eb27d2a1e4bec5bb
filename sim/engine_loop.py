"""The native replay loop behind an engine's rules: GPU cache, chunks, offers.

One request at a time and every transfer done before the next request: the engine's
decisions without its clock. A request looks its chunks up behind the GPU hit, loads
what it finds, and offers chunks for storing as prefill fills them, step by step. A
chunk offered in one step can be evicted from the second step after it on; an offer that
is refused comes again, longer, in the next step.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from hotset.policies.admission import (
    admission_keep,
    admission_on_lookup,
    admission_on_offer,
)
from hotset.policies.arrays import Int32Array, Int64Array, KeyArray
from hotset.policies.jit import kernel
from hotset.policies.slots import REFUSED, STORED, Slots, block, store, unblock
from hotset.policies.verbs import (
    NO_LINKS,
    on_finish,
    on_hit,
    on_ready,
    on_request,
)
from hotset.sim.gpu import Gpu, gpu_allocate, gpu_free, gpu_lookup
from hotset.sim.loop import (
    EVICTIONS,
    GPU_HIT_TOKENS,
    REFUSED_STORES,
    STORES,
    Books,
    Scratch,
    Stream,
    clock,
    count_request,
    gather,
    settle_store,
    start_request,
)

# Fields of Plan.numbers.
BLOCK_TOKENS = 0
CHUNK_TOKENS = 1
STEP_TOKENS = 2  # token budget of one engine step
WHOLE_OFFERS = 3
TOUCH = 4
RETRIES = 5  # steps after prefill in which a refused offer can still change
UNIT = 6
FIRST_MEASURED = 7
OFFERS_AT_END = 8
NUM_PLAN = 9

# Values of numbers[TOUCH]: what counts as a use of a block, and when.
ONCE = 0  # every block, once after the look-up
EACH_TIME = 1  # every key, resident or not, after the look-up and after each store
REPORTED = 2  # blocks that are loaded, and blocks found when offered


class Plan(NamedTuple):
    """The engine's rules and the requests as the GPU sees them."""

    numbers: Int64Array  # int64[NUM_PLAN]
    gpu_offsets: Int64Array  # int64[R + 1]
    gpu_ids: KeyArray  # integer[A], full GPU blocks
    output_tokens: Int64Array  # int64[R]
    pending: Int32Array  # int32[2, N], slots being written, by age in steps
    num_pending: Int64Array  # int64[2]


@kernel
def _use(
    policy: Any,
    stream: Stream,
    books: Books,
    scratch: Scratch,
    unit: int,
    r: int,
    keys: KeyArray,
) -> None:
    """Tell the policy that the resident ones of some keys are used."""
    n = gather(books, keys, scratch.used)
    now = clock(unit, r, stream, books)
    on_hit(policy, scratch.used[:n], now, scratch.request)
    books.keys_used[0] += n


@kernel
def _touch_all(
    policy: Any,
    stream: Stream,
    books: Books,
    scratch: Scratch,
    unit: int,
    r: int,
    keys: KeyArray,
) -> None:
    """Tell the policy of all keys of a request, and that the resident ones are used."""
    for i in range(keys.shape[0]):
        scratch.found[i] = books.slot_of[keys[i]]
    now = clock(unit, r, stream, books)
    on_request(policy, keys, scratch.found[: keys.shape[0]], now, scratch.request)
    _use(policy, stream, books, scratch, unit, r, keys)


@kernel
def _age_pending(policy: Any, slots: Slots, plan: Plan) -> None:
    """Let one step pass: what was offered two steps ago is written."""
    done = plan.num_pending[1]
    unblock(slots, plan.pending[1, :done])
    on_ready(policy, plan.pending[1, :done])
    for i in range(plan.num_pending[0]):
        plan.pending[1, i] = plan.pending[0, i]
    plan.num_pending[1] = plan.num_pending[0]
    plan.num_pending[0] = 0


@kernel
def _offer(
    policy: Any,
    admission: Any,
    slots: Slots,
    stream: Stream,
    books: Books,
    scratch: Scratch,
    plan: Plan,
    r: int,
    keys: KeyArray,
    first: int,
) -> bool:
    """Offer chunks for storing; return False where the offer was refused.

    ``first`` is the depth of the first one.
    """
    unit = plan.numbers[UNIT]
    admission_on_offer(admission, keys)
    wanted = 0
    for i in range(keys.shape[0]):
        scratch.found[i] = books.slot_of[keys[i]]
        if scratch.found[i] < 0:
            scratch.missing[wanted] = keys[i]
            scratch.depths[wanted] = first + i
            wanted += 1
    wanted = admission_keep(admission, scratch.missing, scratch.depths, wanted)
    if plan.numbers[TOUCH] == REPORTED:
        _use(policy, stream, books, scratch, unit, r, keys)
    if wanted == 0:
        return True
    block(slots, scratch.found[: keys.shape[0]])
    taken = plan.pending[0, plan.num_pending[0] :]
    store(
        policy,
        NO_LINKS,
        slots,
        scratch.missing[:wanted],
        scratch.depths[:wanted],
        clock(unit, r, stream, books),
        scratch.request,
        plan.numbers[WHOLE_OFFERS] != 0,
        taken,
        scratch.victims,
        scratch.victim_keys,
        scratch.outcome,
    )
    unblock(slots, scratch.found[: keys.shape[0]])
    if scratch.outcome[STORED] == REFUSED:
        return False
    stored, evicted = settle_store(books, scratch, taken)
    block(slots, taken[:stored])
    plan.num_pending[0] += stored
    if r >= plan.numbers[FIRST_MEASURED]:
        books.counts[STORES] += stored
        books.counts[EVICTIONS] += evicted
    return True


@kernel
def _after_store(
    policy: Any,
    stream: Stream,
    books: Books,
    scratch: Scratch,
    plan: Plan,
    r: int,
    keys: KeyArray,
) -> None:
    """Touch the whole request, or let the policy put it in order."""
    unit = plan.numbers[UNIT]
    if plan.numbers[TOUCH] == EACH_TIME:
        _touch_all(policy, stream, books, scratch, unit, r, keys)
    elif plan.numbers[TOUCH] == ONCE:
        n = gather(books, keys, scratch.used)
        now = clock(unit, r, stream, books)
        on_finish(policy, scratch.used[:n], now, scratch.request)


@kernel
def _prefill(
    policy: Any,
    admission: Any,
    slots: Slots,
    stream: Stream,
    books: Books,
    scratch: Scratch,
    plan: Plan,
    r: int,
    keys: KeyArray,
    computed: int,
    upcoming: int,
) -> None:
    """Run a request's steps.

    ``computed`` tokens are there already, chunks from ``upcoming`` on are offered.
    """
    numbers = plan.numbers
    input_tokens = stream.input_tokens[r]
    # Each output token but the first takes a step.
    later_steps = max(plan.output_tokens[r], 1) - 1 + numbers[OFFERS_AT_END]
    retries = min(numbers[RETRIES], later_steps)
    while True:
        _age_pending(policy, slots, plan)
        prefilled = computed >= input_tokens
        computed = min(computed + numbers[STEP_TOKENS], input_tokens)
        filled = min(computed // numbers[CHUNK_TOKENS], keys.shape[0])
        if filled > upcoming:
            taken = _offer(
                policy,
                admission,
                slots,
                stream,
                books,
                scratch,
                plan,
                r,
                keys[upcoming:filled],
                upcoming,
            )
            if taken:
                upcoming = filled
                if plan.num_pending[0] > 0:
                    _after_store(policy, stream, books, scratch, plan, r, keys)
            elif r >= numbers[FIRST_MEASURED]:
                books.counts[REFUSED_STORES] += 1
        if prefilled:
            retries -= 1
        if computed >= input_tokens and (upcoming >= filled or retries <= 0):
            break
    _age_pending(policy, slots, plan)
    _age_pending(policy, slots, plan)


@kernel
def _load_run(
    admission: Any,
    books: Books,
    plan: Plan,
    keys: KeyArray,
    input_tokens: int,
    local: int,
) -> tuple[int, int]:
    """Return the chunks to load behind ``local`` GPU tokens: the first, and past-last.

    The look-up is left out, as the engine does, where less than a chunk is missing, and
    a result of less than a chunk is none.
    """
    chunk_tokens = plan.numbers[CHUNK_TOKENS]
    first = local // chunk_tokens
    last = first
    if input_tokens - local >= chunk_tokens:
        while last < keys.shape[0] and books.slot_of[keys[last]] >= 0:
            last += 1
        admission_on_lookup(admission, keys[first : min(last + 1, keys.shape[0])])
    if last * chunk_tokens - local < chunk_tokens:
        last = first
    return first, last


@kernel
def _note_request(
    policy: Any,
    stream: Stream,
    books: Books,
    scratch: Scratch,
    plan: Plan,
    r: int,
    keys: KeyArray,
    first: int,
    last: int,
) -> None:
    """Tell the policy of a request and of the chunks that it loads."""
    unit = plan.numbers[UNIT]
    run = keys.shape[0]
    for i in range(keys.shape[0] - 1, -1, -1):
        scratch.found[i] = books.slot_of[keys[i]]
        if scratch.found[i] < 0:
            run = i
    start_request(stream, scratch, r, run)
    now = clock(unit, r, stream, books)
    on_request(policy, keys, scratch.found[: keys.shape[0]], now, scratch.request)
    if plan.numbers[TOUCH] != REPORTED:
        _use(policy, stream, books, scratch, unit, r, keys)
    elif last > first:
        _use(policy, stream, books, scratch, unit, r, keys[first:last])
    if last > first:
        loaded = gather(books, keys[first:last], scratch.used)
        on_ready(policy, scratch.used[:loaded])


@kernel
def replay_engine(
    policy: Any,
    admission: Any,
    slots: Slots,
    gpu: Gpu,
    stream: Stream,
    books: Books,
    scratch: Scratch,
    plan: Plan,
    start: int,
    stop: int,
) -> None:
    """Replay requests ``start`` to ``stop`` - 1; the stream's blocks are chunks."""
    numbers = plan.numbers
    block_tokens, chunk_tokens = numbers[BLOCK_TOKENS], numbers[CHUNK_TOKENS]
    for r in range(start, stop):
        keys = stream.ids[stream.offsets[r] : stream.offsets[r + 1]]
        gpu_keys = plan.gpu_ids[plan.gpu_offsets[r] : plan.gpu_offsets[r + 1]]
        input_tokens = stream.input_tokens[r]

        limit = min((input_tokens - 1) // block_tokens, gpu_keys.shape[0])
        gpu_blocks = gpu_lookup(gpu, gpu_keys, limit)
        local = gpu_blocks * block_tokens
        first, last = _load_run(admission, books, plan, keys, input_tokens, local)
        _note_request(policy, stream, books, scratch, plan, r, keys, first, last)

        # The last token that is sampled is never computed, so it needs no room.
        computed = input_tokens + max(plan.output_tokens[r], 1) - 1
        hashed = computed // block_tokens
        if gpu.key.shape[0] > 0:
            held = min(-(-computed // block_tokens), gpu.key.shape[0])
            gpu_allocate(gpu, gpu_keys, gpu_blocks, held)

        cached = local if last == first else last * chunk_tokens
        upcoming = 0 if last == first else last
        _prefill(
            policy,
            admission,
            slots,
            stream,
            books,
            scratch,
            plan,
            r,
            keys,
            min(cached, input_tokens - 1),
            upcoming,
        )
        # After a load, blocks that the GPU had are not offered, so not reported.
        unreported = first if numbers[TOUCH] == REPORTED and last > first else 0
        remaining = gather(books, keys[unreported:], scratch.used)
        now = clock(numbers[UNIT], r, stream, books)
        on_finish(policy, scratch.used[:remaining], now, scratch.request)
        if gpu.key.shape[0] > 0:
            gpu_free(gpu, hashed)

        books.hit_tokens[r] = cached
        if r >= numbers[FIRST_MEASURED]:
            count_request(stream, books, r, last, cached)
            books.counts[GPU_HIT_TOKENS] += local
