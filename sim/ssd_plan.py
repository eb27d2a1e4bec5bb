"""An SSD tier as it is asked for, and what it comes to for a trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hotset.policies.base import AdmissionSpec, Params, PolicySpec
from hotset.policies.errors import PolicyError
from hotset.sim.capacity import Capacity
from hotset.sim.ssd import MODES, Mode, SsdConfig
from hotset.sim.workload import Workload

_MOST_STAGING = 0.5


@dataclass(frozen=True)
class SsdPlan:
    """An SSD tier behind the CPU tier.

    Parameters
    ----------
    size : Capacity
        Its size.
    policy : (PolicySpec, Params), optional
        Its eviction policy; that of the CPU tier if absent.
    admission : (AdmissionSpec, Params)
        What is worth being written to it.
    mode : "write-through" or "demote"
        When chunks are written.
    writes_per_day : Capacity, optional
        Bytes that may be written in any 24 hours.
    queue : Capacity, optional
        Bytes that may wait to be written.
    staging : float
        Share of the CPU tier that ``demote`` keeps for chunks that were evicted and
        are not written yet; more than it holds are not written.

    Raises
    ------
    PolicyError
        If a value is out of range.
    """

    size: Capacity
    policy: tuple[PolicySpec, Params] | None
    admission: tuple[AdmissionSpec, Params]
    mode: Mode = "write-through"
    writes_per_day: Capacity | None = None
    queue: Capacity | None = None
    staging: float = 0.125

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise PolicyError(f"--ssd-mode {self.mode}: allowed are {', '.join(MODES)}")
        if not 0 < self.staging <= _MOST_STAGING:
            raise PolicyError(
                f"--ssd-staging {self.staging}: allowed is above 0 to {_MOST_STAGING}"
            )
        for limit in (self.writes_per_day, self.queue):
            if limit is not None and limit.unit != "bytes":
                raise PolicyError(
                    f"{limit.option} {limit.text}: bytes are needed (10TB)"
                )

    def as_json(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return {
            "size": self.size.text,
            "mode": self.mode,
            "writes_per_day": self.writes_per_day and self.writes_per_day.text,
            "queue": self.queue and self.queue.text,
            "staging": self.staging if self.mode == "demote" else None,
        }

    def spare_blocks(self, workload: Workload, cpu_blocks: int) -> int:
        """Return the blocks of the CPU tier that demoting takes away from it.

        Raises
        ------
        PolicyError
            If nothing would be left.
        """
        if self.mode != "demote":
            return 0
        per_chunk = workload.blocks_per_chunk
        chunks = cpu_blocks // per_chunk
        if chunks < 2:
            raise PolicyError(
                f"--ssd-mode demote: a CPU tier of {cpu_blocks} blocks has no room for "
                f"chunks of {per_chunk} blocks and for one that is on its way out"
            )
        return max(int(self.staging * chunks), 1) * per_chunk

    def config(
        self,
        workload: Workload,
        cpu_policy: tuple[PolicySpec, Params],
        spare_blocks: int,
        kv_bytes_per_token: int,
    ) -> SsdConfig:
        """Return the tier for a trace, with what `spare_blocks` returned.

        Raises
        ------
        PolicyError
            If it holds no chunk.
        """
        token_bytes, block_tokens = kv_bytes_per_token, workload.trace.block_tokens
        distinct = workload.blocks.num_distinct
        blocks = self.size.blocks(distinct, block_tokens, token_bytes)
        per_chunk = workload.blocks_per_chunk
        if blocks < per_chunk:
            raise PolicyError(
                f"{self.size.option} {self.size.text}: {blocks} blocks hold no chunk "
                f"of {per_chunk} blocks"
            )
        queue, day = self.queue, self.writes_per_day
        return SsdConfig(
            *(self.policy or cpu_policy),
            *self.admission,
            blocks,
            self.mode,
            None if day is None else float(day.amount),
            None if queue is None else float(queue.amount),
            spare_blocks // per_chunk if self.mode == "demote" else None,
        )
