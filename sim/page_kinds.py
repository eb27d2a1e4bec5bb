"""What each kind of result says on a page: verdict, pictures, tables, origin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from hotset.policies.errors import PolicyError
from hotset.policies.registry import POLICIES
from hotset.sim import page_parts as parts
from hotset.sim.report import percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Values = dict[str, Any]
Drawing = tuple[Callable[[], "Figure"], str, str]


@dataclass
class Said:
    """What a result says, in the order of a page.

    Parameters
    ----------
    kind : str
        The command that wrote it.
    verdicts : list of str
        What it comes to.
    curves, maps, tiers : list of (draw, title, description)
        Pictures.
    tables, sizes : list of str
        Tables, as parts of the page.
    traces : list of (path, digest)
        What it was computed from.
    settings : dict
        As the result has them.
    """

    kind: str
    verdicts: list[str] = field(default_factory=list)
    curves: list[Drawing] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    maps: list[Drawing] = field(default_factory=list)
    tiers: list[Drawing] = field(default_factory=list)
    sizes: list[str] = field(default_factory=list)
    traces: list[tuple[str, str]] = field(default_factory=list)
    settings: Values = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def read(values: Any, name: str) -> Said:
    """Return what a result says.

    Raises
    ------
    PolicyError
        If no command of hotset writes such a file, or a part of it is not there.
    """
    tests = {
        "regime-map": ("x_values", "cells"),
        "mrc": ("lru_curve", "runs"),
        "tune": ("verdict", "evidence"),
        "compare": ("traces", "cells"),
        "simulate": ("profile", "runs"),
        "replay": ("trace", "runs"),
        "size": ("tiers", "layers"),
    }
    kind = next(
        (k for k, keys in tests.items()
         if isinstance(values, dict) and all(key in values for key in keys)),
        None,
    )  # fmt: skip
    if kind is None:
        raise PolicyError(f"{name}: no result of {', '.join(tests)}")
    said = Said(kind, settings=dict(values.get("settings", {})))
    try:
        said.warnings = [str(each) for each in values.get("warnings", [])]
        _READERS[kind](values, said)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        raise PolicyError(f"{name}: not a whole result of {kind}") from None
    return said


def _origin(trace: Values, said: Said) -> None:
    said.traces.append((str(trace["path"]), str(trace["sha256"])))


def _replay(values: Values, said: Said) -> None:
    from hotset.sim.plots_page import plot_ratios

    _origin(values["trace"], said)
    runs = values["runs"]
    most = values["trace"]["ceiling"]["token_hit_ratio"]
    online = [r for r in runs if _is_online(r["policy"])]
    for blocks in dict.fromkeys(r["capacity_blocks"] for r in online):
        mine = [r for r in online if r["capacity_blocks"] == blocks]
        best = max(mine, key=lambda r: r["token_hit_ratio"])
        lru = [r["token_hit_ratio"] for r in mine if r["policy"] == "lru"]
        beside = f", lru {percent(lru[0])}" if lru and best["policy"] != "lru" else ""
        if said.kind == "replay":
            said.verdicts.append(
                f"At {blocks:,} blocks {best['label']} hits most: "
                f"{percent(best['token_hit_ratio'])} of the input tokens{beside}; no "
                f"cache hits more than {percent(most)}."
            )
    what = (
        "Token hit ratio by capacity, a line for each policy; dashed: the most that "
        "any cache can hit."
    )
    said.curves.append((partial(plot_ratios, values), "Hits by capacity", what))
    columns = ["policy", "blocks", "tokens hit", "blocks hit", "stores", "evictions"]
    rows = [
        [r["label"], f"{r['capacity_blocks']:,}", percent(r["token_hit_ratio"]),
         percent(r["block_hit_ratio"]), f"{r['stores']:,}", f"{r['evictions']:,}"]
        for r in runs
    ]  # fmt: skip
    said.tables.append(parts.table("Runs", columns, rows))


def _is_online(name: str) -> bool:
    known = POLICIES.names()
    policy = POLICIES.get(name) if name in known else None
    return policy is None or not (policy.offline or policy.unbounded)


def _mrc(values: Values, said: Said) -> None:
    _replay(values, said)
    curve = values["lru_curve"]
    if curve["knee_blocks"] is not None:
        said.verdicts.append(
            f"The knee of lru is at {curve['knee_blocks']:,} blocks: more memory gains "
            "less from there on."
        )
    enough = curve["enough_for_percent"] or {}
    rows = [[f"{share} %", f"{blocks:,}"] for share, blocks in enough.items() if blocks]
    title = "lru hits a share of the most it can"
    said.sizes.append(parts.table(title, ["share", "blocks"], rows))


def _tune(values: Values, said: Said) -> None:
    _origin(values["provenance"]["trace"], said)
    said.verdicts.append(f"{values['verdict']}: {values['reason']}")
    columns = ["role", "policy", "tokens hit", "gain over lru, points", "99 % bounds"]
    rows = []
    for row in values["evidence"]["holdout"]:
        gain, ratio = row.get("gain"), row.get("token_hit_ratio")
        points, bounds = "-", "-"
        if gain:
            points = f"{100 * gain['value']:+.2f}"
            bounds = f"{100 * gain['lower']:+.2f} to {100 * gain['upper']:+.2f}"
        hit = "-" if ratio is None else percent(ratio)
        rows.append([row["role"], row.get("label") or "-", hit, points, bounds])
    said.tables.append(parts.table("Judged on the holdout", columns, rows))
    search = {name: values["search"][name] for name in ("sampler", "seed", "trials")}
    said.settings = {**values["engine"], "cpu": values["cpu"], **search}


def _compare(values: Values, said: Said) -> None:
    for trace in values["traces"]:
        _origin(trace, said)
    rows = []
    for cell in values["cells"]:
        path = values["traces"][cell["trace"]]["path"]
        verdict = cell["verdict"]
        if verdict is None:
            said.verdicts.append(f"{path} at {cell['capacity']}: not ranked.")
        else:
            said.verdicts.append(
                f"{path} at {cell['capacity']}: {verdict['ours']} is "
                f"{verdict['outcome']}, {verdict['difference_points']:+.2f} points "
                f"beside {verdict['others']}, noise "
                f"{verdict['noise_floor_points']:.2f}."
            )
        rows += [
            [path, f"{cell['capacity_blocks']:,}", r["policy"],
             percent(r["token_hit_ratio"]), f"{r['points_over_lru']:+.2f}",
             f"{r['noise_floor_points']:.2f}"]
            for r in cell["rows"]
        ]  # fmt: skip
    columns = ["trace", "blocks", "policy", "tokens hit", "over lru, points", "noise"]
    said.tables.append(parts.table("Everyone", columns, rows))


def _simulate(values: Values, said: Said) -> None:
    from hotset.sim.plots_page import plot_tiers

    _origin(values["trace"], said)
    runs = values["runs"]
    best = min(runs, key=lambda r: r["ttft_s"]["p95"])
    load = max(run["offered_load"] or 0.0 for run in runs)
    verdict = (
        f"On {values['profile']['name']}, {best['label']} has the least p95 TTFT: "
        f"{best['ttft_s']['p95']:.3f} s, with {percent(best['token_hit_ratio'])} of "
        "the input tokens hit."
    )
    if load > 1:
        verdict += (
            f" But at an offered load of {load:.2f} the queue grows as long as "
            "requests come: TTFT says how long the trace is."
        )
    said.verdicts.append(verdict)
    columns = ["policy", "TTFT mean, s", "p95, s", "tokens hit", "GPU", "CPU", "SSD",
               "prefill saved, s"]  # fmt: skip
    rows = []
    for run in runs:
        tokens, ttft = run["tokens"], run["ttft_s"]
        whole = max(tokens["input"], 1)
        tiers = ("gpu_hit", "cpu_hit", "ssd_hit")
        shares = [percent(tokens[tier] / whole) for tier in tiers]
        rows.append([run["label"], f"{ttft['mean']:.3f}", f"{ttft['p95']:.3f}",
                     percent(run["token_hit_ratio"]), *shares,
                     f"{run['saved_prefill_s']:,.1f}"])  # fmt: skip
        if "over_time" in run:
            title = f"Hits by tier over time: {run['label']}"
            what = (
                f"{run['label']}: share of the input tokens that GPU, CPU and SSD "
                "gave, and that were computed, over time."
            )
            said.tiers.append((partial(plot_tiers, run), title, what))
    said.tables.append(parts.table("In time", columns, rows))
    moved = [
        [run["label"], f"{run['cpu']['load_bytes'] / 1e9:,.1f}",
         f"{run['cpu']['store_bytes'] / 1e9:,.1f}", f"{run['cpu_blocks']:,}"]
        for run in runs
    ]  # fmt: skip
    columns = ["policy", "loaded, GB", "stored, GB", "CPU blocks"]
    said.sizes.append(parts.table("Sizes and costs of the CPU tier", columns, moved))


def _map(values: Values, said: Said) -> None:
    from hotset.sim.plots_regimes import plot_map

    cells = values["cells"]
    ties = sum(bool(cell["is_tie"]) for cell in cells)
    said.verdicts.append(
        f"{values['settings']['workload']}: no policy shown is ahead of lru at {ties} "
        f"of {len(cells)} places."
    )
    helps: dict[str, int] = {}
    for cell in cells:
        helps[cell["knob"] or "nothing"] = helps.get(cell["knob"] or "nothing", 0) + 1
    said.verdicts.append(
        "What helps most: " + ", ".join(f"{k} at {n}" for k, n in helps.items()) + "."
    )
    what = (
        "Who wins at each place and by how many points over lru, what helps most, and "
        "what each knob is worth; hatched: a tie."
    )
    said.maps.append((partial(plot_map, values), "Regime map", what))
    names = [values["settings"][axis]["name"] for axis in ("y", "x")]
    columns = [*names, "winner", "over lru, points", "noise", "what helps"]
    columns.append("level with the best")
    rows = [
        [c["y"], c["x"], "tie" if c["is_tie"] else c["winner"],
         f"{c['points_over_lru']:+.1f}", f"{c['noise_points']:.1f}",
         c["knob"] or "nothing", ", ".join(c["level"])]
        for c in cells
    ]  # fmt: skip
    said.tables.append(parts.table("Places of the map", columns, rows))
    digests = dict.fromkeys(str(d) for cell in cells for d in cell["sha256"])
    said.traces += [(str(values["settings"]["workload"]), digest) for digest in digests]


def _size(values: Values, said: Said) -> None:
    rows = [
        [
            t["tier"],
            f"{t['bytes'] / 2**30:,.1f}",
            f"{t['blocks']:,}",
            f"{t['tokens']:,}",
        ]
        for t in values["tiers"]
    ]
    for row in rows:
        said.verdicts.append(f"{row[0]}: {row[1]} GiB hold {row[3]} tokens.")
    columns = ["tier", "GiB", "blocks", "tokens"]
    said.sizes.append(parts.table("What a tier holds", columns, rows))
    if "trace" in values:
        _origin(values["trace"], said)
        hits = [
            [" + ".join(r["tiers"]), percent(r["token_hit_ratio"]),
             _money(r.get("money_per_saved_prefill_hour"))]
            for r in values["trace"]["lru"]
        ]  # fmt: skip
        columns = ["tiers", "tokens hit by lru", "money for a saved prefill hour"]
        said.sizes.append(parts.table("What it hits", columns, hits))


def _money(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f}"


_READERS: dict[str, Callable[[Values, Said], None]] = {
    "replay": _replay,
    "mrc": _mrc,
    "tune": _tune,
    "compare": _compare,
    "simulate": _simulate,
    "regime-map": _map,
    "size": _size,
}


def settings_rows(settings: Values) -> Sequence[tuple[str, str]]:
    """Return settings that are there, as rows of a table."""
    return [(name, str(value)) for name, value in settings.items() if value is not None]
