"""Costs fitted to measured requests: planted ones are found again."""

import dataclasses

import numpy as np
import pytest

from hotset.policies.errors import PolicyError
from hotset.sim.calibrate import Measured, calibrate, read_measured

K, A, B, SPEED = 0.05, 8.9e-5, 6.8e-9, 7.5e9


def measured(count=400, noise=0.0, seed=1, outliers=0):
    rng = np.random.default_rng(seed)
    computed = rng.integers(100, 12_000, count).astype(float)
    cached = rng.integers(0, 12_000, count).astype(float)
    loads = cached * 57_344 * (rng.random(count) < 0.5)
    ttft = K + A * computed + B * (computed**2 / 2 + computed * cached) + loads / SPEED
    ttft *= 1 + noise * rng.standard_normal(count)
    ttft[:outliers] += 3.0
    context = rng.integers(100, 20_000, count).astype(float)
    return Measured(computed, cached, ttft, loads, 0.01 + 8e-8 * context, context)


@pytest.mark.parametrize(("noise", "outliers"), [(0.0, 0), (0.003, 0), (0.003, 20)])
def test_planted_costs_are_found_within_a_hundredth(noise, outliers):
    found = calibrate(measured(noise=noise, outliers=outliers))
    assert found.start_s == pytest.approx(K, rel=0.01)
    assert found.token_s == pytest.approx(A, rel=0.01)
    assert found.pair_s == pytest.approx(B, rel=0.01)
    assert found.load_bytes_per_s == pytest.approx(SPEED, rel=0.03)
    assert found.decode_s == pytest.approx(0.01, rel=0.01)
    assert found.context_s == pytest.approx(8e-8, rel=0.01)
    assert found.requests == 400
    assert found.median_error < 0.01


def test_no_cost_is_negative():
    rows = measured(40)
    flat = Measured(
        *(getattr(rows, name) for name in ("computed_tokens",)),
        *[
            np.zeros(40),
            1.0 - rows.computed_tokens * 1e-6,
            np.zeros(40),
            np.full(40, np.nan),
            np.full(40, np.nan),
        ],
    )
    found = calibrate(flat)
    assert min(found.start_s, found.token_s, found.pair_s) >= 0
    assert found.load_bytes_per_s is None
    assert found.decode_s is None


def test_too_few_requests():
    with pytest.raises(PolicyError, match="3 requests: more than 4 are needed"):
        calibrate(measured(3))


HEADER = "computed_tokens,cached_tokens,ttft_s,load_bytes\n"


def test_measured_requests_are_read(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(HEADER + "100,0,0.06,\n200,50,0.07,1000\n")
    rows = read_measured(path)
    assert rows.computed_tokens.tolist() == [100, 200]
    assert rows.load_bytes.tolist() == [0, 1000]
    assert np.isnan(rows.itl_s).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no rows"),
        ("cached_tokens,ttft_s\n1,1\n", "no column computed_tokens"),
        (HEADER + "0,0,1,\n", "line 2: computed_tokens is '0'"),
        (HEADER + "1,0,1,\n1,0,nan,\n", "line 3: ttft_s is 'nan'"),
        (HEADER + "1,0,1,-5\n", "load_bytes is '-5'"),
        (HEADER + "1,0\n", "ttft_s is None"),
        (HEADER + "1,0,0,\n", "ttft_s is '0'"),
        (HEADER + "1e308,0,1,\n", "computed_tokens is '1e308'"),
        (HEADER + "1,inf,1,\n", "cached_tokens is 'inf'"),
        (HEADER + "1,1_0,1,\n", "cached_tokens is '1_0'"),
    ],
)
def test_bad_rows_are_named(tmp_path, text, message):
    path = tmp_path / "rows.csv"
    path.write_text(text)
    with pytest.raises(PolicyError, match=message):
        read_measured(path)


def test_a_missing_file(tmp_path):
    with pytest.raises(PolicyError, match="No such file"):
        read_measured(tmp_path / "none.csv")


def test_a_byte_order_mark_is_no_fault(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("\ufeff" + HEADER + "100,0,0.06,\n")
    assert read_measured(path).computed_tokens.tolist() == [100]


def _rows(computed, cached, loads=0.0):
    computed, cached = np.array(computed, float), np.array(cached, float)
    pairs = computed**2 / 2 + computed * cached
    loads = np.zeros(len(computed)) + loads
    ttft = K + A * computed + B * pairs + loads / SPEED
    unknown = np.full(len(computed), np.nan)
    return Measured(computed, cached, ttft, loads, unknown, unknown)


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        (_rows([1000] * 12, [0] * 12), "start_s, token_s, pair_s"),
        (_rows([1000, 2000] * 6, [0] * 12), "start_s, token_s, pair_s"),
        (_rows([1000] * 12, range(12)), "start_s, token_s"),
        # Every cached token was loaded, and all computed as many.
        (
            _rows([1000, 1000, 1000, 2000, 2000] * 3, [0] * 15, loads=1e9),
            "start_s, token_s, pair_s, load_bytes_per_s",
        ),
    ],
)
def test_requests_too_much_alike_are_refused(rows, names):
    with pytest.raises(PolicyError, match=f"do not tell {names} apart"):
        calibrate(rows)


def test_lengths_that_differ_enough_are_taken():
    found = calibrate(_rows([1000, 1300, 2000] * 4, [0] * 12))
    assert found.start_s == pytest.approx(K, rel=0.01)
    assert found.pair_s == pytest.approx(B, rel=0.01)


def test_steps_over_one_context_tell_of_no_token():
    rows = measured(40)
    found = calibrate(
        dataclasses.replace(
            rows, itl_s=np.full(40, 0.02), context_tokens=np.full(40, 900.0)
        )
    )
    assert (found.decode_s, found.context_s) == (0.02, None)
