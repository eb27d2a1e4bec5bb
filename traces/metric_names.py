"""Names of what is counted, the same in a simulation's summary and in a server.

`hotset simulate` writes them under ``cpu`` and ``tokens``; vLLM exposes them with
`PREFIX` in front. Chunks are vLLM's; a simulation counts the same ones. Only the
standard library is used: vLLM's front end reads this before any engine runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PREFIX = "vllm:hotset_"

# What happened to a prompt's tokens; these add up to its length.
TOKENS = ("gpu_hit", "cpu_hit", "ssd_hit", "computed")


@dataclass(frozen=True)
class Metric:
    """One thing that is counted.

    Parameters
    ----------
    name : str
        Its name.
    kind : {"counter", "gauge", "histogram"}
        How it changes.
    about : str
        What it is, with its unit.
    labels : tuple of str
        What a server tells apart; a simulation adds it up.
    buckets : tuple of float
        Upper bounds, of a histogram.
    is_simulated : bool
        Whether a simulation has it, too.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    about: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    is_simulated: bool = True

    @property
    def exposed(self) -> str:
        """Its name in a server."""
        return PREFIX + self.name


_SOURCE = ("source_type",)
_MINUTE, _HOUR = 60.0, 3600.0

_SSD: tuple[tuple[str, Literal["counter", "gauge"], str, tuple[str, ...]], ...] = (
    ("promotions", "counter", "chunks that were sent for from SSD", ()),
    (
        "failed_promotions",
        "counter",
        "chunks that were sent for and did not come: misses",
        (),
    ),
    (
        "refused_promotions",
        "counter",
        "chunks on SSD that found no place in the CPU tier, or were not read",
        (),
    ),
    (
        "ssd_writes",
        "counter",
        "chunks that were given to the SSD, when stored or when evicted",
        ("mode",),
    ),
    (
        "ssd_unstaged",
        "counter",
        "chunks not written since too much of the CPU tier was being written",
        (),
    ),
    (
        "ssd_overdue",
        "counter",
        "chunks of transfers that were not reported in time",
        (),
    ),
    ("ssd_lookups", "counter", "look-ups of chunks on SSD", ("outcome",)),
    ("ssd_loads", "counter", "reads from SSD by how they ended", ("outcome",)),
    (
        "ssd_stores",
        "counter",
        "chunks offered to the SSD by what became of them",
        ("outcome",),
    ),
    ("ssd_evictions", "counter", "chunks that left the SSD", ("reason",)),
    ("ssd_bytes", "counter", "bytes read and written", ("direction",)),
    ("ssd_faults", "counter", "failures of the SSD tier's code", ("where",)),
    (
        "ssd_pauses",
        "counter",
        "times that a failing or slow disk was left alone",
        ("direction",),
    ),
    ("ssd_capacity", "gauge", "chunks that fit on SSD", ()),
    ("ssd_resident", "gauge", "chunks that can be read from SSD", ()),
    ("ssd_pending", "gauge", "chunks that are being written to SSD", ()),
    ("ssd_queued_bytes", "gauge", "bytes of writes under way", ()),
    ("ssd_slot_file_bytes", "gauge", "bytes of files on SSD", ()),
    ("ssd_reads_paused", "gauge", "1 while nothing is read from SSD", ()),
    ("ssd_writes_paused", "gauge", "1 while nothing is written to SSD", ()),
    ("ssd_fallen_back", "gauge", "1 once LRU took over on SSD", ()),
)

METRICS = (
    Metric("capacity", "gauge", "chunks that fit into the CPU tier"),
    Metric("resident", "gauge", "chunks in the CPU tier, in any state"),
    Metric("pinned", "gauge", "chunks that are being read"),
    Metric("pending", "gauge", "chunks that are being written"),
    Metric("stores", "counter", "chunks that were taken in", _SOURCE),
    Metric("loaded", "counter", "chunks that were loaded for a request", _SOURCE),
    Metric(
        "evictions",
        "counter",
        "chunks that left for others: by the policy, by the LRU order behind a policy "
        "that failed, by a reset",
        (*_SOURCE, "reason"),
    ),
    Metric(
        "dropped_unused",
        "counter",
        "evicted chunks that no request had loaded",
        _SOURCE,
    ),
    Metric(
        "refused_offers", "counter", "offers that did not fit beside what is in use"
    ),
    Metric(
        "refused_chunks",
        "counter",
        "chunks that were not worth a place, to the admission rule or to the policy",
        ("reason",),
    ),
    Metric("policy_faults", "counter", "failures after which LRU took over"),
    Metric(
        "reuse_age_s",
        "histogram",
        "seconds since the last use of the oldest chunk that a load needed",
        buckets=(
            *(1.0, 3.0, 10.0, 30.0, _MINUTE, 2 * _MINUTE, 5 * _MINUTE, 10 * _MINUTE),
            *(20 * _MINUTE, _HOUR, 2 * _HOUR, 6 * _HOUR, 24 * _HOUR),
        ),
    ),
    Metric(
        "tokens",
        "counter",
        "tokens of prompts, by where their KV came from",
        ("outcome",),
    ),
    Metric("requests", "counter", "requests that ended", is_simulated=False),
    Metric(
        "failed_stores", "counter", "chunks whose writing failed", is_simulated=False
    ),
    Metric("fallen_back", "gauge", "1 once LRU took over", is_simulated=False),
    Metric(
        "invalid_tags",
        "counter",
        "request tags that were wrong and not used",
        ("tag",),
        is_simulated=False,
    ),
    Metric(
        "recorded_requests",
        "counter",
        "requests by what the recorder did with them",
        ("outcome",),
        is_simulated=False,
    ),
    Metric(
        "policy_files",
        "counter",
        "new policy files that were applied or refused",
        ("outcome",),
        is_simulated=False,
    ),
    *(
        Metric(name, kind, about, labels, is_simulated=False)
        for name, kind, about, labels in _SSD
    ),
)
