"""Costs fitted to the metrics of a server: planted ones are found again."""

import json

import numpy as np
import pytest
from support.command_line import runner

from hotset.policies.errors import PolicyError
from hotset.sim.calibrate_scrapes import calibrate_scrapes, fit_files, read_scrape
from hotset.sim.cli import app
from hotset.traces import record

K, A, B, STEP_S, CONTEXT_S, SPEED = 0.05, 8.9e-5, 6.8e-9, 0.0145, 8.5e-8, 8.4e9


def scrapes(folder, count=60, batch=1, noise=0.0, seed=1):
    """Files of a server that ran requests alone, one behind each few of them."""
    rng = np.random.default_rng(seed)
    sums = dict.fromkeys(
        (
            "request_prefill_time_seconds_sum",
            "request_prefill_time_seconds_count",
            "request_prefill_kv_computed_tokens_sum",
            "request_prompt_tokens_sum",
            "request_generation_tokens_sum",
            "inter_token_latency_seconds_sum",
            "inter_token_latency_seconds_count",
            "kv_offload_load_bytes_total",
            "kv_offload_load_time_total",
        ),
        0.0,
    )
    paths = []
    for i in range(count + 1):
        if i:
            for _ in range(batch):
                computed, cached = map(int, rng.integers(50, 8000, 2))
                taken = K + A * computed + B * (computed**2 / 2 + computed * cached)
                taken *= 1 + noise * rng.standard_normal()
                outputs = int(rng.integers(2, 90))
                context = computed + cached + outputs / 2
                added = (
                    taken,
                    1,
                    computed,
                    computed + cached,
                    outputs,
                    (outputs - 1) * (STEP_S + CONTEXT_S * context),
                    outputs - 1,
                    cached * 57_344.0,
                    cached * 57_344.0 / SPEED,
                )
                for name, value in zip(sums, added, strict=True):
                    sums[name] += value
        lines = ["# HELP vllm:num_requests_running Number", "python_info 1.0"]
        # Two engines, whose sums add up.
        lines += [
            f'vllm:{name}{{engine="{engine}",model_name="a b"}} {value / 2!r}'
            for name, value in sums.items()
            for engine in (0, 1)
        ]
        paths.append(folder / f"{i}.prom")
        paths[-1].write_text("\n".join(lines) + "\n")
    return paths


def test_planted_costs_are_found_within_a_hundredth(tmp_path):
    found = calibrate_scrapes(scrapes(tmp_path, noise=0.003))
    assert found.start_s == pytest.approx(K, rel=0.01)
    assert found.token_s == pytest.approx(A, rel=0.01)
    assert found.pair_s == pytest.approx(B, rel=0.02)
    assert found.decode_s == pytest.approx(STEP_S, rel=0.01)
    assert found.context_s == pytest.approx(CONTEXT_S, rel=0.01)
    assert found.load_bytes_per_s == pytest.approx(SPEED, rel=1e-9)
    assert found.store_bytes_per_s is None
    assert (found.rows, found.requests) == (60, 60)
    assert 0 < found.median_error < found.max_error < 0.02


def test_several_requests_between_scrapes_cost_some_accuracy(tmp_path):
    found = calibrate_scrapes(scrapes(tmp_path, count=200, batch=4))
    assert found.requests == 800
    assert found.start_s == pytest.approx(K, rel=0.2)
    assert found.token_s == pytest.approx(A, rel=0.1)
    assert 0 < found.median_error < 0.03


def test_few_scrapes_tell_of_links_and_decode_steps_alone(tmp_path):
    paths = scrapes(tmp_path, count=3)
    for few in (paths[3:], paths[2:], paths):
        found = calibrate_scrapes(few)
        assert (found.start_s, found.token_s, found.median_error) == (None, None, None)
        assert found.load_bytes_per_s == pytest.approx(SPEED, rel=1e-6)
        assert found.decode_s == pytest.approx(STEP_S, rel=0.2)


def call(*words):
    return runner().invoke(app, [str(word) for word in words])


def test_as_a_user_runs_it(tmp_path):
    shown = call(
        "calibrate", *scrapes(tmp_path, count=20), "--json", tmp_path / "fit.json"
    )
    assert shown.exit_code == 0, shown.output
    assert "start_s = 0.05" in shown.stdout
    assert "store_bytes_per_s = unknown" in shown.stdout
    fit = json.loads((tmp_path / "fit.json").read_text())
    assert fit["token_s"] == pytest.approx(A, rel=0.01)
    assert fit["rows"] == 20


METRICS = "".join(
    f"vllm:{name} 1\n"
    for name in (
        "request_prefill_time_seconds_sum",
        "request_prefill_kv_computed_tokens_sum",
        "request_prompt_tokens_sum",
    )
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# HELP x\n", "no vllm:request_prefill_time_seconds_sum"),
        ("# HELP x\nvllm:a b c d\n", "line 2: 'vllm:a b c d' is no line"),
        (METRICS + "vllm:x many\n", "line 4: 'vllm:x many'"),
        (METRICS, "no request ended before this scrape"),
        (METRICS.replace(" 1", " nan"), "scrapes of one server are needed"),
        (METRICS.replace(" 1", " 1e308"), "scrapes of one server are needed"),
    ],
)
def test_other_files_are_refused_in_one_line(tmp_path, text, message):
    path = tmp_path / "x.prom"
    path.write_text(text)
    shown = call("calibrate", path)
    assert shown.exit_code == 2
    assert message in shown.stderr
    assert len(shown.stderr.splitlines()) == 1


def test_scrapes_are_of_one_server_and_in_order(tmp_path):
    paths = scrapes(tmp_path, count=5)
    with pytest.raises(PolicyError, match="scrapes of one server are needed, in order"):
        calibrate_scrapes(paths[::-1])
    (tmp_path / "rows.csv").write_text("computed_tokens,cached_tokens,ttft_s\n1,0,1\n")
    with pytest.raises(PolicyError, match="only scrapes of a server's metrics"):
        fit_files([paths[0], tmp_path / "rows.csv"])


def test_a_recording_has_no_times(tmp_path):
    path = tmp_path / "recording.jsonl"
    path.write_bytes(record.row(0.0, 10, 1, 4, [1, 2], {}))
    with pytest.raises(PolicyError, match="a recording has no times to first token"):
        fit_files([path])


def test_sums_are_added_over_series_and_suffixes(tmp_path):
    path = tmp_path / "x.prom"
    path.write_text(METRICS + 'vllm:y_total{a="}"} 2 123\nvllm:y_total{a="b"} 3\n')
    assert read_scrape(path)["y"] == 5.0


def test_alike_requests_tell_no_costs_apart(tmp_path):
    """The same request again and again: unknown, rather than made up."""
    paths = []
    for i in range(9):
        sums = {
            "request_prefill_time_seconds_sum": 0.2 * i,
            "request_prefill_time_seconds_count": i,
            "request_prefill_kv_computed_tokens_sum": 1000 * i,
            "request_prompt_tokens_sum": 1000 * i,
            "request_generation_tokens_sum": 10 * i,
            "inter_token_latency_seconds_sum": 0.09 * i,
            "inter_token_latency_seconds_count": 9 * i,
        }
        lines = [f"vllm:{name} {value!r}" for name, value in sums.items()]
        paths.append(tmp_path / f"{i}.prom")
        # A mark at the start is no part of it.
        paths[-1].write_text("\ufeff" + "\n".join(lines) + "\n")
    shown = call("calibrate", *paths)
    assert shown.exit_code == 0, shown.output
    for name in ("start_s", "token_s", "pair_s", "context_s", "median_error"):
        assert f"{name} = unknown" in shown.stdout
    assert "decode_s = 0.01\n" in shown.stdout
    assert "note: requests too much alike" in shown.stderr
