"""What replays, curves and comparisons say on a page."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from hotset.policies.registry import POLICIES
from hotset.sim import page_parts as parts
from hotset.sim.page_said import Said, Values, names, shown_best
from hotset.sim.report import percent

_LRU = "lru"


def read_replay(values: Values, said: Said) -> None:
    """Say who hits most at each capacity."""
    _replayed(values, said)
    path, runs = values["trace"]["path"], values["runs"]
    online = [run for run in runs if _is_online(run["policy"])]
    most = values["trace"]["ceiling"]["token_hit_ratio"]
    for blocks in dict.fromkeys(run["capacity_blocks"] for run in online):
        mine = [run for run in online if run["capacity_blocks"] == blocks]
        said.verdicts.append(
            f"{path}, {blocks:,} blocks: {_who_hits_most(mine)}; no cache hits more "
            f"than {percent(most)}."
        )
    if not online:
        who = names(run["label"] for run in runs) or "nothing"
        said.verdicts.append(
            f"{path}: {who} ran, which no server can run, so there is no policy to "
            f"choose; no cache hits more than {percent(most)} of the input tokens."
        )


def _who_hits_most(runs: Sequence[Values]) -> str:
    """Return the verdict on the runs of one capacity; ties are said as ties."""
    best = shown_best(
        runs, lambda run: percent(run["token_hit_ratio"]), _token_hit_ratio
    )
    share = f"{percent(best[0]['token_hit_ratio'])} of the input tokens"
    if len(runs) == 1:
        return f"{best[0]['label']} hits {share}, and nothing else ran beside it"
    who = names(run["label"] for run in best)
    if len(best) == len(runs):
        return f"a tie: {who} hit the same, {share}"
    said = f"a tie of {who}: {share}" if best[1:] else f"{who} hits most: {share}"
    lru = [run for run in runs if run["policy"] == _LRU and run not in best]
    return said + "".join(f", lru {percent(_token_hit_ratio(run))}" for run in lru[:1])


def _token_hit_ratio(run: Values) -> float:
    return float(run["token_hit_ratio"])


def _is_online(name: str) -> bool:
    known = POLICIES.names()
    policy = POLICIES.get(name) if name in known else None
    return policy is None or not (policy.offline or policy.unbounded)


def _replayed(values: Values, said: Said) -> None:
    """Show the runs, with their picture where there are any."""
    from hotset.sim.plots_page import plot_ratios

    said.computed_from(values["trace"])
    what = (
        "Token hit ratio by capacity, a line for each policy; dashed: the most that "
        "any cache can hit."
    )
    title = f"Hits by capacity: {values['trace']['path']}"
    said.curves.append((partial(plot_ratios, values), title, what))
    columns = ["policy", "blocks", "tokens hit", "blocks hit", "stores", "evictions"]
    rows = [
        [r["label"], f"{r['capacity_blocks']:,}", percent(r["token_hit_ratio"]),
         percent(r["block_hit_ratio"]), f"{r['stores']:,}", f"{r['evictions']:,}"]
        for r in values["runs"]
    ]  # fmt: skip
    table = parts.table(f"Runs of {values['trace']['path']}", columns, rows)
    said.tables.append(table)


def read_mrc(values: Values, said: Said) -> None:
    """Say where LRU's knee is, and who hits most at how many sizes."""
    _replayed(values, said)
    path, curve = values["trace"]["path"], values["lru_curve"]
    if curve["knee_blocks"] is not None:
        said.verdicts.append(
            f"{path}: the knee of lru is at {curve['knee_blocks']:,} blocks: more "
            "memory gains less from there on."
        )
    else:
        said.verdicts.append(f"{path}: nothing can be hit, whatever the size.")
    online = [run for run in values["runs"] if _is_online(run["policy"])]
    counts: dict[str, int] = {}
    sizes = dict.fromkeys(run["capacity_blocks"] for run in online)
    for blocks in sizes:
        mine = [run for run in online if run["capacity_blocks"] == blocks]
        best = shown_best(
            mine, lambda run: percent(run["token_hit_ratio"]), _token_hit_ratio
        )
        who = best[0]["label"] if len(best) == 1 else "a tie"
        counts[who] = counts.get(who, 0) + 1
    if len({run["label"] for run in online}) > 1:
        told = ", ".join(f"{who} at {count}" for who, count in counts.items())
        said.verdicts.append(f"{path}: of {len(sizes)} sizes, most is hit by {told}.")
    enough = curve["enough_for_percent"] or {}
    rows = [[f"{share} %", f"{blocks:,}"] for share, blocks in enough.items() if blocks]
    title = f"lru hits a share of the most it can: {path}"
    said.sizes.append(parts.table(title, ["share", "blocks"], rows))


def read_compare(values: Values, said: Said) -> None:
    """Say where the best of hotset's own is ahead of the best of the others."""
    for trace in values["traces"]:
        said.computed_from(trace)
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
    if not values["cells"]:
        said.verdicts.append("Nothing was compared.")
    columns = ["trace", "blocks", "policy", "tokens hit", "over lru, points", "noise"]
    said.tables.append(parts.table("Everyone", columns, rows))
