"""What simulations and tunings say on a page."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from hotset.sim import page_parts as parts
from hotset.sim.objectives import OBJECTIVES, figure, gain_unit
from hotset.sim.page_said import Said, Values, names, shown_best
from hotset.sim.report import percent

_FULL_LOAD = 1.0
_AT_ONCE_S = 1e-6  # requests of so short a time have no course of time to show


def read_simulate(values: Values, said: Said) -> None:
    """Say who has the least p95 TTFT, where the machine can keep up at all."""
    said.computed_from(values["trace"])
    where = f"{values['trace']['path']} on {values['profile']['name']}"
    said.verdicts += [f"{where}: {line}" for line in _least_ttft(values["runs"])]
    _time_table(values, said)
    _time_pictures(values, said)
    _costs(values, where, said)


def _costs(values: Values, where: str, said: Said) -> None:
    """Say what was moved; by the SSD as well, where a run has one."""
    has_ssd = any(run.get("ssd") for run in values["runs"])
    columns = ["policy", "CPU blocks", "loaded, GB", "stored, GB"]
    columns += ["SSD read, GB", "SSD written, GB", "a day, TB"] if has_ssd else []
    rows = []
    for run in values["runs"]:
        row = [run["label"], f"{run['cpu_blocks']:,}"]
        row += [f"{run['cpu'][f'{way}_bytes'] / 1e9:,.1f}" for way in ("load", "store")]
        ssd = run.get("ssd")
        if ssd:
            a_day = ssd["writes_per_day_bytes"]
            row += [f"{ssd[f'{way}_bytes'] / 1e9:,.1f}" for way in ("read", "write")]
            row.append("-" if a_day is None else f"{a_day / 1e12:,.1f}")
        rows.append(row)
    said.sizes.append(parts.table(f"Sizes and costs: {where}", columns, rows))


def _is_overloaded(run: Values) -> bool:
    load = run["offered_load"]
    return load is not None and load > _FULL_LOAD


def _least_ttft(runs: Sequence[Values]) -> list[str]:
    """Return the verdict; runs that the machine cannot keep up with have none."""
    found = []
    over = [run for run in runs if _is_overloaded(run)]
    able = [run for run in runs if not _is_overloaded(run)]
    if over:
        low, high = (
            f"{each(run['offered_load'] for run in over):.2f}" for each in (min, max)
        )
        loads = low if low == high else f"{low} to {high}"
        found.append(
            f"overloaded with {names(run['label'] for run in over)}, at an offered "
            f"load of {loads}{_bottlenecks(over)}: above 1 the queue grows as long as "
            "requests come, so TTFT says how long the trace is and ranks nothing."
        )
        if not able:
            return [*found, _most_hits(over)]
    best = shown_best(able, _p95, lambda run: -run["ttft_s"]["p95"])
    if len(best) == 1:
        found.append(
            f"{best[0]['label']} has the least p95 TTFT: {_p95(best[0])}, with "
            f"{percent(best[0]['token_hit_ratio'])} of the input tokens hit."
        )
    else:
        who = names(run["label"] for run in best)
        found.append(f"a tie of {who}: a p95 TTFT of {_p95(best[0])}.")
    return found


def _bottlenecks(runs: Sequence[Values]) -> str:
    """Return what is too small, where results say it."""
    found = names(run["bottleneck"] for run in runs if run.get("bottleneck"))
    return f" ({found})".replace("_", " ") if found else ""


def _most_hits(runs: Sequence[Values]) -> str:
    best = shown_best(
        runs,
        lambda run: percent(run["token_hit_ratio"]),
        lambda run: run["token_hit_ratio"],
    )
    who, share = (
        names(run["label"] for run in best),
        percent(best[0]["token_hit_ratio"]),
    )
    hits = f"{who} hits most" if len(best) == 1 else f"{who} tie"
    return f"by hits, {hits}: {share} of the input tokens."


def _p95(run: Values) -> str:
    return f"{run['ttft_s']['p95']:.3f} s"


def _time_table(values: Values, said: Said) -> None:
    columns = ["policy", "offered load", "TTFT mean, s", "p95, s", "tokens hit", "GPU",
               "CPU", "SSD", "prefill saved, s"]  # fmt: skip
    rows = []
    for run in values["runs"]:
        tokens, load = run["tokens"], run["offered_load"]
        whole = max(tokens["input"], 1)
        tiers = ("gpu_hit", "cpu_hit", "ssd_hit")
        times = [f"{run['ttft_s'][which]:.3f}" for which in ("mean", "p95")]
        rows.append(
            [
                run["label"],
                "-" if load is None else f"{load:.2f}",
                *(["overloaded"] * 2 if _is_overloaded(run) else times),
                percent(run["token_hit_ratio"]),
                *(percent(tokens[tier] / whole) for tier in tiers),
                f"{run['saved_prefill_s']:,.1f}",
            ]
        )
    title = f"In time: {values['trace']['path']} on {values['profile']['name']}"
    said.tables.append(parts.table(title, columns, rows))


def _time_pictures(values: Values, said: Said) -> None:
    from hotset.sim.plots_page import plot_tiers

    for run in values["runs"]:
        edges = run.get("over_time", {}).get("edges_s", [0.0])
        if edges[-1] - edges[0] > _AT_ONCE_S:
            where = f"{run['label']}, {values['trace']['path']}"
            title = f"Hits by tier over time: {where}"
            what = (
                "Share of the input tokens that GPU, CPU and SSD gave, and that were "
                "computed, over time."
            )
            said.tiers.append((partial(plot_tiers, run), title, what))


def read_tune(values: Values, said: Said) -> None:
    """Say whether to deploy, and what everyone got in the objectives asked for."""
    trace, evidence = values["provenance"]["trace"], values["evidence"]
    said.computed_from(trace)
    said.verdicts.append(f"{trace['path']}: {values['verdict']}: {values['reason']}.")
    objectives = [each["name"] for each in values["search"]["objectives"]]
    titles = [
        OBJECTIVES[name].title if name in OBJECTIVES else name for name in objectives
    ]
    gain = f"gain over lru, {gain_unit(evidence['objective'])}"
    bounds = f"{100 * evidence['confidence']:g} % bounds"
    rows = [_judged(row, objectives) for row in evidence["holdout"]]
    title = f"Judged on the holdout of {trace['path']} by {titles[0]}"
    columns = ["role", "policy", *titles, gain, bounds]
    said.tables.append(parts.table(title, columns, rows))
    search = {name: values["search"][name] for name in ("sampler", "seed", "trials")}
    said.settings = {**values["engine"], "cpu": values["cpu"], **search}
    blocks, num_bytes = (values["cpu"].get(name) for name in ("blocks", "bytes"))
    size = "-" if num_bytes is None else f"{num_bytes / 2**30:,.1f}"
    row = ["cpu", "-" if blocks is None else f"{blocks:,}", size]
    title = f"Tuned for: {trace['path']}"
    said.sizes.append(parts.table(title, ["tier", "blocks", "GiB"], [row]))


def _judged(row: Values, objectives: Sequence[str]) -> list[str]:
    gain = row["gain"]
    points, bounds = "-", "-"
    if gain:
        points = f"{100 * gain['value']:+.2f}"
        bounds = f"{100 * gain['lower']:+.2f} to {100 * gain['upper']:+.2f}"
    told = [figure(name, row[name]) if name in row else "-" for name in objectives]
    return [row["role"], row.get("label") or "-", *told, points, bounds]
