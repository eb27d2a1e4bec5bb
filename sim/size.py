"""How much KV cache of a model a budget holds, and what that would hit of a trace.

A tier of B bytes holds ``floor(B / bytes of a block over all ranks)`` blocks, as vLLM's
CPU tier does but for the rounding of a block to whole pages. The hits are those of
plain LRU over whole blocks of the trace; with an SSD, of one LRU cache as large as both
tiers, which is what demoting on eviction makes of them.

Money for a saved hour of prefill is what the tiers cost in the time of the trace, by
the gibibyte and month, over the hours that prefilling the hit tokens would have taken.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hotset.policies.errors import PolicyError
from hotset.sim.capacity import parse_capacity
from hotset.sim.kv_layout import STATE, KvLayout
from hotset.sim.mrc import LruCurve, lru_curve
from hotset.sim.study import check_reuse
from hotset.sim.workload import Workload
from hotset.traces.model import Trace

HOURS_OF_A_MONTH = 730.0
_GIB = 1 << 30
_CURVE_POINTS = 200


@dataclass(frozen=True)
class ModelFile:
    """The file that a layout was read from.

    Parameters
    ----------
    path : str
        As the user wrote it.
    sha256 : str
        Of its bytes.
    model_type : str, optional
        As the file says.
    """

    path: str
    sha256: str
    model_type: str | None

    @classmethod
    def of(cls, path: Path) -> ModelFile:
        """Return what tells a file that `read_layout` has read."""
        raw = path.read_bytes()
        kind = json.loads(raw).get("model_type")
        digest = hashlib.sha256(raw).hexdigest()
        return cls(str(path), digest, kind if isinstance(kind, str) else None)


@dataclass(frozen=True)
class Tier:
    """A tier of some bytes.

    Parameters
    ----------
    name : "cpu" or "ssd"
        Which.
    total_bytes : int
        Over all ranks.
    block_tokens, block_bytes : int
        Of a block, what the tier holds of all ranks.
    """

    name: str
    total_bytes: int
    block_tokens: int
    block_bytes: int

    @property
    def blocks(self) -> int:
        """Blocks that fit."""
        return self.total_bytes // self.block_bytes

    @property
    def tokens(self) -> int:
        """Tokens that fit."""
        return self.blocks * self.block_tokens


@dataclass(frozen=True)
class Prices:
    """What the tiers cost, in any one currency.

    Parameters
    ----------
    ram, ssd : float
        Of a gibibyte for a month.
    prefill_tokens_per_s : float
        How fast the tokens would be computed that a hit saves.
    """

    ram: float
    ssd: float
    prefill_tokens_per_s: float

    def for_an_hour(self, tiers: list[Tier]) -> float:
        """Return what tiers cost in an hour."""
        by_name = {"cpu": self.ram, "ssd": self.ssd}
        month = sum(tier.total_bytes / _GIB * by_name[tier.name] for tier in tiers)
        return month / HOURS_OF_A_MONTH


def make_tier(name: str, text: str, layout: KvLayout, block_tokens: int) -> Tier:
    """Return a tier of a size as written.

    Raises
    ------
    PolicyError
        If it is no size in bytes or holds no block.
    """
    size = parse_capacity(text, f"--{name}")
    if size.unit != "bytes":
        raise PolicyError(f"--{name} {text}: bytes are needed, such as 64GiB")
    tier = Tier(name, int(size.amount), block_tokens, layout.block_bytes(block_tokens))
    if tier.blocks < 1:
        raise PolicyError(
            f"--{name} {text}: a block takes {tier.block_bytes:,} bytes, so none fits"
        )
    return tier


@dataclass(frozen=True)
class TraceFit:
    """What LRU in the tiers would hit of a trace.

    Parameters
    ----------
    trace : Trace
        The trace.
    curve : LruCurve
        LRU at every size.
    """

    trace: Trace
    curve: LruCurve

    @classmethod
    def of(cls, trace: Trace) -> TraceFit:
        """Compute the curve.

        Raises
        ------
        TraceError
            For a trace of lengths alone.
        """
        check_reuse(trace)
        return cls(trace, lru_curve(Workload(trace, "drop")))

    def blocks(self, tokens: int) -> int:
        """Return the trace's blocks that so many tokens are."""
        return tokens // self.trace.block_tokens

    def hit_tokens(self, tokens: int) -> int | None:
        """Return the tokens hit in a cache of so many; None where it is not known.

        The curve of a trace whose blocks stand behind different prefixes begins at its
        longest request.
        """
        blocks = self.blocks(tokens)
        if not self.curve.covers(blocks):
            return None
        return int(self.curve.counts(blocks)["hit_tokens"])

    def token_hit_ratio(self, tokens: int) -> float | None:
        """Return the share of input tokens hit in a cache of so many."""
        hits = self.hit_tokens(tokens)
        if hits is None:
            return None
        return hits / self.curve.input_tokens if self.curve.input_tokens else 0.0

    def money_for_saved_hour(self, prices: Prices, tiers: list[Tier]) -> float | None:
        """Return what an hour of prefill costs that the tiers save.

        None where nothing is saved, or the trace has no duration.
        """
        hits = self.hit_tokens(sum(tier.tokens for tier in tiers))
        arrival_s = self.trace.arrival_s
        hours = float(arrival_s[-1] - arrival_s[0]) / 3600.0 if len(arrival_s) else 0.0
        if not hits or not hours:
            return None
        saved = hits / prices.prefill_tokens_per_s / 3600.0
        return prices.for_an_hour(tiers) * hours / saved


def as_json(
    model: ModelFile,
    layout: KvLayout,
    tiers: list[Tier],
    block_tokens: int,
    fit: TraceFit | None = None,
    prices: Prices | None = None,
) -> dict[str, Any]:
    """Return sizes, and what they would hit, as JSON values."""
    found: dict[str, Any] = {
        "model": {
            "path": model.path,
            "sha256": model.sha256,
            "model_type": model.model_type,
        },
        "tp": layout.ranks,
        "copies": layout.copies,
        "value_bytes": layout.value_bytes,
        "layers": [_layers_as_json(layout, group) for group in layout.layers],
        "block_tokens": block_tokens,
        "rank_bytes_per_token": layout.rank_bytes_per_token,
        "bytes_per_token": layout.rank_bytes_per_token * layout.copies,
        "rank_bytes_per_state": layout.rank_bytes_per_state,
        "rank_bytes_per_block": layout.rank_block_bytes(block_tokens),
        "bytes_per_block": layout.block_bytes(block_tokens),
        "tiers": [
            {
                "tier": tier.name,
                "bytes": tier.total_bytes,
                "rank_bytes": tier.total_bytes // layout.copies,
                "blocks": tier.blocks,
                "tokens": tier.tokens,
            }
            for tier in tiers
        ],
    }
    if fit is not None:
        found["trace"] = _fit_as_json(fit, tiers, prices)
        found["warnings"] = list(fit.trace.provenance.warnings)
    return found


def _layers_as_json(layout: KvLayout, group: Any) -> Mapping[str, Any]:
    what = "rank_bytes_per_state" if group.kind == STATE else "rank_bytes_per_token"
    return {
        "kind": group.kind,
        "count": group.count,
        "values": group.values,
        "value_bytes": layout.value_bytes_of(group),
        "arithmetic": group.arithmetic,
        "window_tokens": group.window_tokens or None,
        what: group.count * group.values * layout.value_bytes_of(group),
    }


def _curve(fit: TraceFit, tiers: list[Tier]) -> list[dict[str, Any]]:
    """Return the curve as closely as a picture shows it, knee and budgets in it.

    A cache larger than all distinct blocks is not listed: it hits no more.
    """
    first, last = max(fit.curve.first_capacity, 1), fit.curve.most_blocks
    if first >= last:
        sizes = {last}
    else:
        grid = np.geomspace(first, last, _CURVE_POINTS).round()
        sizes = {int(blocks) for blocks in grid} | {first, last}
        asked = [
            fit.blocks(sum(tier.tokens for tier in tiers[:count]))
            for count in range(1, len(tiers) + 1)
        ]
        sizes |= {
            blocks
            for blocks in (*asked, fit.curve.knee() or first)
            if first <= blocks <= last
        }
    block_tokens = fit.trace.block_tokens
    return [
        {
            "tokens": blocks * block_tokens,
            "token_hit_ratio": fit.token_hit_ratio(blocks * block_tokens),
        }
        for blocks in sorted(sizes)
        if fit.curve.covers(blocks)
    ]


def _fit_as_json(
    fit: TraceFit, tiers: list[Tier], prices: Prices | None
) -> dict[str, Any]:
    knee = fit.curve.knee()
    found: dict[str, Any] = {
        "path": fit.trace.provenance.path,
        "sha256": fit.trace.provenance.sha256,
        "format": fit.trace.provenance.format,
        "requests": fit.trace.num_requests,
        "rejected": fit.trace.provenance.rows_rejected,
        "block_tokens": fit.trace.block_tokens,
        "ceiling_token_hit_ratio": fit.token_hit_ratio(
            fit.curve.most_blocks * fit.trace.block_tokens
        ),
        "knee_tokens": None if knee is None else knee * fit.trace.block_tokens,
        "curve": _curve(fit, tiers),
        "lru": [],
    }
    for count in range(1, len(tiers) + 1):
        some = tiers[:count]
        tokens = sum(tier.tokens for tier in some)
        row = {
            "tiers": [tier.name for tier in some],
            "trace_blocks": fit.blocks(tokens),
            "token_hit_ratio": fit.token_hit_ratio(tokens),
        }
        if prices is not None:
            row["money_per_saved_prefill_hour"] = fit.money_for_saved_hour(prices, some)
        found["lru"].append(row)
    return found
