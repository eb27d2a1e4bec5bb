"""What regime maps and sizes say on a page."""

from __future__ import annotations

from functools import partial

from hotset.sim import page_parts as parts
from hotset.sim.page_said import Said, Values
from hotset.sim.report import percent

_PAGE_INCHES = 7.3  # of parts of a map side by side: a printed page
_STATE = "rank_bytes_per_state"


def read_map(values: Values, said: Said) -> None:
    """Say who is ahead of LRU at how many places, and what helps."""
    from hotset.sim.plots_regimes import plot_map

    cells, workload = values["cells"], values["settings"]["workload"]
    ties = sum(cell["is_tie"] for cell in cells)
    wins: dict[str, int] = {}
    helps: dict[str, int] = {}
    shared = 0
    for cell in cells:
        helps[cell["knob"] or "nothing"] = helps.get(cell["knob"] or "nothing", 0) + 1
        if not cell["is_tie"]:
            wins[cell["winner"]] = wins.get(cell["winner"], 0) + 1
            shared += any(label != cell["winner"] for label in cell["level"])
    found = [f"{who} is ahead of lru at {n}" for who, n in wins.items()]
    if shared:
        found[-1] += f" (others are level with the winner at {shared})"
    if ties:
        found.append(f"a tie at {ties}: no policy shown is ahead of lru")
    said.verdicts.append(f"{workload}: of {len(cells)} places, {', '.join(found)}.")
    told = ", ".join(f"{knob} at {n}" for knob, n in helps.items())
    said.verdicts.append(f"{workload}: what helps most: {told}.")
    what = (
        "Who wins at each place and by how many points over lru, what helps most, and "
        "what each knob is worth; hatched: a tie; (+n): so many others are level with "
        "the winner."
    )
    title = f"Regime map: {workload}"
    said.maps.append((partial(plot_map, values, _PAGE_INCHES), title, what))
    _map_table(values, said)
    digests = dict.fromkeys(digest for cell in cells for digest in cell["sha256"])
    said.traces += [(workload, digest) for digest in digests]


def _map_table(values: Values, said: Said) -> None:
    settings = values["settings"]
    columns = [settings[axis]["name"] for axis in ("y", "x")]
    columns += ["winner", "over lru, points", "noise", "what helps"]
    columns.append("level with the best")
    rows = [
        [c["y"], c["x"], "tie" if c["is_tie"] else c["winner"],
         f"{c['points_over_lru']:+.1f}", f"{c['noise_points']:.1f}",
         c["knob"] or "nothing", ", ".join(c["level"])]
        for c in values["cells"]
    ]  # fmt: skip
    title = f"Places of the map: {settings['workload']}"
    said.tables.append(parts.table(title, columns, rows))


def read_size(values: Values, said: Said) -> None:
    """Say what a budget holds of which model, how that comes about, what it hits."""
    model = values.get("model", {}).get("path", "a model that the file does not name")
    rows = [
        [t["tier"], _gib(t["bytes"]), _gib(t["rank_bytes"]), f"{t['blocks']:,}",
         f"{t['tokens']:,}"]
        for t in values["tiers"]
    ]  # fmt: skip
    for tier, size, _, _, tokens in rows:
        said.verdicts.append(f"{tier}: {size} GiB hold {tokens} tokens of {model}.")
    columns = ["tier", "GiB", "GiB a rank", "blocks", "tokens"]
    said.sizes.append(parts.table(f"What a tier holds of {model}", columns, rows))
    _derivation(values, model, said)
    said.settings = {"tp": values["tp"], **said.settings}
    if "model" in values:
        said.traces.append((model, values["model"]["sha256"]))
    if "trace" in values:
        said.computed_from(values["trace"])
        _fit(values, said)


def _gib(num_bytes: int) -> str:
    return f"{num_bytes / 2**30:,.1f}"


def _derivation(values: Values, model: str, said: Said) -> None:
    """Say how the bytes of a block come about."""
    rows = []
    for group in values["layers"]:
        of = "state" if _STATE in group else "token"
        num_bytes = group.get(_STATE, group.get("rank_bytes_per_token", 0))
        window = group.get("window_tokens")
        kind = group["kind"] + (f" of {window:,} tokens" if window else "")
        rows.append(
            [f"{group['count']} layers, {kind}", group["arithmetic"],
             f"{num_bytes:,} a {of}"]
        )  # fmt: skip
    block, copies = f"a block of {values['block_tokens']} tokens", values["copies"]
    rank, whole = values["rank_bytes_per_block"], values["bytes_per_block"]
    sum_of = f"{values['block_tokens']:,} x {values['rank_bytes_per_token']:,}"
    if values["rank_bytes_per_state"]:
        sum_of += f" + {values['rank_bytes_per_state']:,}, the states"
    rows.append([block, sum_of, f"{rank:,}"])
    same = "" if copies == values["tp"] else ": all ranks keep the same"
    rows.append([f"{block}, in a tier", f"x {copies} ranks{same}", f"{whole:,}"])
    columns = ["what", f"in each of {values['tp']} ranks", "bytes"]
    title = f"How a block of {model} comes about, {values['value_bytes']} bytes a value"
    said.sizes.append(parts.table(title, columns, rows, True))


def _fit(values: Values, said: Said) -> None:
    from hotset.sim.plots_size import plot_size

    fit = values["trace"]
    hits = []
    for row in fit["lru"]:
        ratio = row["token_hit_ratio"]
        said_ratio = "-" if ratio is None else percent(ratio)
        money = row.get("money_per_saved_prefill_hour")
        name = tiers_name(row["tiers"])
        hits.append([name, said_ratio, "-" if money is None else f"{money:,.2f}"])
        if ratio is not None:
            said.verdicts.append(
                f"{fit['path']}: lru in {name} hits {said_ratio} of the input tokens."
            )
    knee = fit["knee_tokens"]
    if knee is not None:
        said.verdicts.append(
            f"{fit['path']}: the knee of lru is at {knee:,} tokens, "
            f"{_gib(knee * values['bytes_per_block'] // values['block_tokens'])} GiB: "
            "more memory gains less from there on."
        )
    columns = ["tiers", "tokens hit by lru", "money for a saved prefill hour"]
    said.sizes.append(parts.table(f"What it hits of {fit['path']}", columns, hits))
    if fit.get("curve"):
        what = "Hits of lru by tokens cached; vertical: the budgets; ring: the knee."
        title = f"Hits by budget: {fit['path']}"
        said.budgets.append((partial(plot_size, values, 4.7), title, what))


def tiers_name(tiers: list[str]) -> str:
    """Return what some tiers are together: one cache, by demotion on eviction."""
    return " + ".join(tiers) + (", demoting on eviction" if len(tiers) > 1 else "")
