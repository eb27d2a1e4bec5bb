"""The contract of `hotset.policies.base`, for every policy that can run in a server.

Random operations go through `PolicyDriver` beside a model that knows what must be true
after each of them (`contract.player`).
"""

import dataclasses
import math

import pytest
from contract.player import Player, scripts
from contract.serving import make_driver, online_names, serve
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import forests

from hotset.policies import POLICIES
from hotset.policies.verbs import Kernels, kernels_of

contract_settings = settings(max_examples=30, deadline=None)

# Sizes of trackers at their upper bound take gigabytes; more sights than a test has
# store nothing, see `test_marconi.py`.
_NOT_AT_THEIR_BOUND = {"tracker_size", "admission_threshold"}


def extremes(name):
    """A policy with all numbers at their lower and upper bound, under each choice."""
    fields = dataclasses.fields(POLICIES.get(name).params)
    texts = []
    for end in ("low", "high"):
        numbers = [
            f"{field.name}={field.metadata[end]!r}"
            for field in fields
            if field.metadata[end] is not None
            and (end == "low" or field.name not in _NOT_AT_THEIR_BOUND)
        ]
        choices = [
            f"{field.name}={choice}"
            for field in fields
            for choice in field.metadata["choices"] or ()
        ]
        for choice in choices or [None]:
            parts = [*numbers, choice] if choice else numbers
            texts.append(f"{name}:{','.join(parts)}" if parts else name)
    return list(dict.fromkeys(texts))


CASES = [
    text for name in online_names() for text in dict.fromkeys([name, *extremes(name)])
]


@pytest.mark.parametrize("text", CASES)
@contract_settings
@given(data=st.data())
def test_any_operations(text, data):
    """Exact victims or none, pins, protection, occupancy, books and scores.

    Two players get the same script, one of them with calls in between that must be
    refused: all that can be seen of them stays equal.
    """
    paths = data.draw(forests(max_requests=10)).paths
    capacity = data.draw(st.integers(1, 16))
    plain, disturbed = Player(text, capacity, paths), Player(text, capacity, paths)
    for number, operation in enumerate(data.draw(scripts())):
        disturbed.fail()
        seen = plain.play(operation)
        where = f"operation {number} {operation} on {paths}, capacity {capacity}"
        assert disturbed.play(operation) == seen, where
        assert disturbed.resident == plain.resident, where
    rest = len(plain.evictable([]))
    assert plain.driver.evict(rest) == disturbed.driver.evict(rest)


def victims_one_by_one(driver):
    """Evict one at a time until nothing is left."""
    gone = []
    while len(driver):
        gone += driver.evict(1)
    return gone


# Orders that say otherwise, so that these policies do not claim it: blocks leave as
# they were given or stored (`given`, `insertion`), or in the order in which vLLM 0.24
# (for ARC to 0.30) stored them or was told that they are written.
_HEADS_FIRST = ("order=given", "order=insertion", "order=vllm-0.24", "order=vllm-0.30")
# So does a weight on being near the prompt's end.
TAIL_FIRST = [
    text
    for text in CASES
    if not text.endswith(_HEADS_FIRST) and ",end=8.0," not in text
]


@pytest.mark.parametrize("text", TAIL_FIRST)
@pytest.mark.parametrize("n", [1, 2, 7])
def test_tails_age_before_heads(text, n):
    driver = make_driver(text, 8)
    serve(driver, range(n))
    assert victims_one_by_one(driver) == list(reversed(range(n)))


@pytest.mark.parametrize("text", TAIL_FIRST)
@pytest.mark.parametrize("batch", [1, 2, 3])
def test_tails_age_before_heads_when_stored_in_batches(text, batch):
    driver = make_driver(text, 8)
    serve(driver, range(7), batch=batch)
    gone = victims_one_by_one(driver)
    if text.startswith("fifo"):
        # The batch stored first goes first, by definition; tails first within it.
        batches = [list(range(7))[i : i + batch] for i in range(0, 7, batch)]
        assert gone == [key for part in batches for key in reversed(part)]
    elif "w_recency=0.0" in text:
        # All scores are equal and equals leave as they were inserted, as above.
        assert sorted(gone) == list(range(7))
    else:
        assert gone == list(reversed(range(7)))


# `fifo` ignores use, and where recency weighs nothing equals leave as inserted.
BY_USE = [t for t in TAIL_FIRST if not ("fifo" in t or "w_recency=0.0" in t)]


# Blocks used twice and blocks used once are not compared by age.
COUNT_WITHOUT_THE_BLOCK = ("marconi", "relevance")
WORTH_BEFORE_AGE = (
    *COUNT_WITHOUT_THE_BLOCK,
    "arc",
    "lfu",
    "gdsf",
    "sieve",
    "s3fifo",
    "tinylfu",
)


@pytest.mark.parametrize("text", BY_USE)
@given(
    batch=st.integers(1, 7),
    grown=st.integers(0, 4),
    lost=st.lists(st.integers(0, 6), max_size=3, unique=True),
)
@contract_settings
def test_tails_age_before_heads_after_use(text, batch, grown, lost):
    """A request comes again, longer, after some of its blocks were lost."""
    driver = make_driver(text, 12)
    serve(driver, range(7))
    serve(driver, [100])
    driver.remove(lost)
    serve(driver, range(7 + grown), batch=batch)
    gone = [key for key in victims_one_by_one(driver) if key != 100]
    used_twice = set(range(7))
    if not text.startswith(COUNT_WITHOUT_THE_BLOCK):
        used_twice -= set(lost)
    if text.startswith(WORTH_BEFORE_AGE):
        parts = [
            [k for k in gone if (k in used_twice) is kind] for kind in (True, False)
        ]
    else:
        parts = [gone]
    for part in parts:
        assert part == sorted(part, reverse=True), gone


@pytest.mark.parametrize("text", CASES)
def test_a_pinned_block_outlives_everything(text):
    driver = make_driver(text, 4)
    serve(driver, [1, 2])
    driver.pin([2])
    for key in range(10, 40):
        serve(driver, [key])
    assert 2 in driver
    driver.unpin([2])
    assert driver.num_evictable == 4
    assert len(driver.evict(4)) == 4


@pytest.mark.parametrize("text", CASES)
def test_scores_are_numbers_at_any_priority_and_source(text):
    """What a client sends never reaches a comparison as NaN."""
    driver = make_driver(text, 64)
    values = (math.nan, math.inf, -math.inf, -3.0, 0.0, 1e300, 1e-300, 5e-324)
    key = 0
    for source in (-1, 0, 3, 99):
        for priority in values:
            serve(driver, [key], priority=priority, source_type=source)
            key += 1
    scores = driver.scores(list(range(key)))
    assert not any(math.isnan(score) for score in scores)
    assert sorted(driver.evict(key)) == list(range(key))
    assert driver.num_faults == 0


def refuses(text):
    spec, params = POLICIES.parse(text)
    return spec.refuses(params)


@pytest.mark.parametrize("text", [text for text in CASES if not refuses(text)])
@contract_settings
@given(forest=forests(max_requests=30), batch=st.integers(1, 5))
def test_a_policy_that_says_so_stores_whatever_fits(text, forest, batch):
    """Observed or not, seen before or not: every missing block is stored."""
    driver = make_driver(text, 16)
    for number, path in enumerate(forest.paths):
        request = driver.begin()
        if number % 2:
            driver.observe(request, path)
        for first in range(0, len(path), batch):
            part = path[first : first + batch]
            missing = [key for key in part if key not in driver]
            stored = driver.offer(request, part, range(first, first + len(part)))
            assert stored is not None
            assert stored.keys == missing
            driver.complete(stored.keys)
        driver.finish(request, path)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("lru", False),
        ("marconi", False),
        ("marconi:admission_threshold=2", True),
        ("belady", True),
        ("belady:bypass=false", False),
    ],
)
def test_which_policies_may_refuse(text, answer):
    assert refuses(text) is answer


@pytest.mark.parametrize("name", online_names())
def test_a_policy_with_an_admission_of_its_own_says_when_it_refuses(name):
    spec, params = POLICIES.parse(name)
    has_own = kernels_of(spec.make(params, 4, None)).admit is not Kernels().admit
    says = spec.refuses is not POLICIES.get("lru").refuses
    assert says or not has_own
