import json
import os
import subprocess
import sys
import zlib
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotset.traces.errors import TraceError
from hotset.traces.generate import KINDS, generate, options_of
from hotset.traces.random_values import Draws
from hotset.traces.registry import sample_path
from hotset.traces.stats import ceiling
from hotset.traces.write import write_trace

OTHER_PROCESS = """
import json, sys
from hotset.traces.generate import KINDS, generate
print(json.dumps([generate(kind, 300, 5).provenance.sha256 for kind in KINDS]))
"""


def rows(trace):
    offsets = trace.request_offsets.tolist()
    ids = trace.block_ids.tolist()
    return [ids[a:b] for a, b in pairwise(offsets)]


@pytest.mark.parametrize("kind", KINDS)
def test_same_seed_same_trace(kind):
    one, two = generate(kind, 300, 5), generate(kind, 300, 5)
    assert one.equals(two)
    assert one.provenance == two.provenance
    assert one.num_requests == 300
    assert not one.equals(generate(kind, 300, 6))


def test_same_trace_in_another_process():
    environment = {**os.environ, "PYTHONHASHSEED": "77"}
    command = [sys.executable, "-c", OTHER_PROCESS]
    ran = subprocess.run(command, env=environment, capture_output=True, check=True)
    here = [generate(kind, 300, 5).provenance.sha256 for kind in KINDS]
    assert json.loads(ran.stdout) == here


@pytest.mark.parametrize("kind", KINDS)
def test_a_longer_trace_begins_with_the_shorter(kind):
    short, long = generate(kind, 100, 5), generate(kind, 200, 5)
    assert rows(long)[:100] == rows(short)
    assert long.arrival_s[:100].tolist() == short.arrival_s.tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_every_id_has_one_parent_and_covers_one_length(kind):
    trace = generate(kind, 500, 2)
    assert trace.block_tokens == 512
    sizes = np.diff(trace.request_offsets)
    assert np.array_equal(sizes, -(-trace.input_tokens // 512))
    parent, covered = {}, {}
    for row, tokens in zip(rows(trace), trace.input_tokens.tolist(), strict=True):
        for depth, block in enumerate(row):
            above = row[depth - 1] if depth else None
            assert parent.setdefault(block, above) == above
            reach = min((depth + 1) * 512, tokens)
            assert covered.setdefault(block, reach) == reach


@pytest.mark.parametrize("kind", KINDS)
def test_arrivals_are_whole_milliseconds(kind):
    arrival_ms = generate(kind, 500, 2).arrival_s * 1000
    assert np.allclose(arrival_ms, np.rint(arrival_ms), atol=1e-6)


def test_uniform_draws_whole_contexts():
    trace = generate("uniform", 4000, 1, contexts=20, context_blocks=3, rate_per_s=4.0)
    assert trace.num_blocks == 60
    heads = np.bincount([row[0] for row in rows(trace)])
    assert {len(row) for row in rows(trace)} == {3}
    counts = heads[heads > 0]
    assert counts.size == 20
    # Five standard deviations of a binomial share of 1/20.
    assert np.abs(counts - 200).max() < 5 * np.sqrt(4000 * 0.05 * 0.95)
    assert trace.arrival_s[-1] == pytest.approx(1000, rel=0.1)
    assert trace.session.tolist() == [-1] * 4000


def test_hot_scan_has_a_hot_set_and_contexts_that_never_come_back():
    trace = generate("hot-scan", 4000, 1, hot_contexts=10, scan_ratio=0.3)
    times_seen = np.bincount([row[0] for row in rows(trace)])
    times_seen = times_seen[times_seen > 0]
    assert np.count_nonzero(times_seen > 1) == 10
    assert np.count_nonzero(times_seen == 1) == pytest.approx(1200, rel=0.1)


@pytest.mark.parametrize("kind", ["chat", "agents"])
def test_prompts_of_a_session_grow(kind):
    trace = generate(kind, 1000, 3)
    last_tokens, last_output, last_row = {}, {}, {}
    partial = 0
    for index, row in enumerate(rows(trace)):
        session = int(trace.session[index])
        tokens = int(trace.input_tokens[index])
        if session in last_tokens:
            before = last_row[session]
            assert tokens > last_tokens[session] + last_output[session]
            full = last_tokens[session] // 512
            assert row[:full] == before[:full]
            # The partial block's id stands for a text that ends there.
            assert len(before) == full or before[full] != row[full]
            partial += len(before) != full
        last_tokens[session], last_row[session] = tokens, row
        last_output[session] = int(trace.output_tokens[index])
    assert partial > 100
    first_seen = list(dict.fromkeys(trace.session.tolist()))
    assert first_seen == list(range(len(first_seen)))


def test_agents_are_many_at_once_with_long_prompts():
    trace = generate("agents", 2000, 1)
    assert np.median(np.diff(trace.request_offsets)) > 50
    changes = np.count_nonzero(np.diff(trace.session)) / 2000
    assert changes > 0.8


def test_budgets_matter_on_the_sample():
    trace = generate("chat", 2000, 1)
    median = np.median(np.diff(trace.request_offsets))
    assert 4 <= median <= 20
    most = ceiling(trace, "drop")
    assert 0.7 < most.token_hit_ratio < 0.9
    distinct = trace.accesses("drop").num_distinct
    # What the sessions under way need at a time exceeds a fifth of it all.
    assert working_set(trace, 300.0) > 0.2 * distinct


def working_set(trace, window_s):
    accesses = trace.accesses("drop")
    middle = float(trace.arrival_s[-1]) / 2
    start, stop = np.searchsorted(trace.arrival_s, [middle, middle + window_s])
    ids = accesses.ids[accesses.offsets[start] : accesses.offsets[stop]]
    return np.unique(ids).size


def test_sample_is_what_its_command_makes(tmp_path):
    made = tmp_path / "sample.jsonl.gz"
    write_trace(generate("chat", 2000, 1), made)
    bundled = sample_path().read_bytes()
    assert zlib.decompress(made.read_bytes(), 31) == zlib.decompress(bundled, 31)
    if "ng" not in zlib.ZLIB_RUNTIME_VERSION:
        # Other compressors write the same content in other bytes.
        assert made.read_bytes() == bundled


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("chatt", 1, 0), {}, "did you mean chat"),
        (("chat", 0, 0), {}, "requests: got 0"),
        (("chat", 1, -1), {}, "seed: got -1"),
        (("uniform", 1, 0), {"context": 5}, "unknown option.*did you mean contexts"),
        (("uniform", 1, 0), {"contexts": 0}, "contexts: got 0"),
        (("uniform", 1, 0), {"contexts": 1.5}, "contexts: got 1.5"),
        (("uniform", 1, 0), {"contexts": True}, "contexts: got True"),
        (("uniform", 1, 0), {"rate_per_s": 0.0}, "rate_per_s: got 0.0"),
        (("uniform", 1, 0), {"rate_per_s": float("nan")}, "rate_per_s: got nan"),
        (("uniform", 1, 0), {"contexts": float("inf")}, "contexts: got inf"),
        (("hot-scan", 1, 0), {"scan_ratio": 1.1}, "scan_ratio: got 1.1"),
        (("chat", 1, 0), {"length_spread": 1e3}, "got 1000.0, .*at least 0.001, at mo"),
        (("chat", 1, 0), {"zipf_exponent": 9.0}, "at most 8"),
        (("chat", 1, 0), {"user_tokens": 2**24 + 1}, "at most 16777216"),
        (("chat", 1, 0), {"system_prompts": 10**7}, "a whole number.* at most 1000000"),
        (("chat", 1, 0), {"sessions_per_s": 5e-324}, "at least 1e-06"),
        (("uniform", 1, 0), {"context_blocks": 2**15 + 1}, "at most 32768"),
        (("uniform", 10**8, 0), {}, "requests: got 100000000, allowed: 1..10000000"),
    ],
)
def test_wrong_arguments(arguments, options, message):
    with pytest.raises(TraceError, match=message):
        generate(*arguments, **options)


@pytest.mark.parametrize("kind", ["chat", "agents"])
def test_the_widest_spread_does_not_overflow(kind):
    trace = generate(kind, 5, 1, length_spread=8.0, output_tokens=2**24)
    assert trace.num_requests == 5
    assert trace.output_tokens.max() == 2**24


def test_options_are_listed():
    assert options_of("hot-scan")["scan_ratio"] == 0.5
    with pytest.raises(TraceError, match="unknown kind"):
        options_of("nope")


@given(st.integers(0, 10))
def test_distributions(seed):
    draws = Draws(seed)
    count = 4000
    exponential = np.array([draws.exponential(3.0) for _ in range(count)])
    geometric = np.array([draws.geometric(5.0) for _ in range(count)])
    lengths = np.array([draws.log_normal(200, 0.5) for _ in range(count)])
    assert exponential.min() >= 0
    assert exponential.mean() == pytest.approx(3.0, rel=0.15)
    assert geometric.min() == 1
    assert geometric.mean() == pytest.approx(5.0, rel=0.15)
    assert np.median(lengths) == pytest.approx(200, rel=0.1)
    assert draws.geometric(1.0) == 1
    assert 0 <= draws.below(3) < 3
