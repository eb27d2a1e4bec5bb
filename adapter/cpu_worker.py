"""The transfer worker for vLLM's CPU build: rows copied from tensor to tensor.

vLLM brings workers for GPUs only. Here "GPU" blocks live in RAM as well, so a transfer
is a plain copy that is done when it is submitted. It exists so that the whole path,
real engine and real transfers, runs in tests and on a laptop.

From vLLM 0.26 on a worker takes stores and loads; before, a handler takes both and
tells them apart by their ends. `CpuTransferWorker` and `CpuTransferHandler` are these
two shapes of one copier.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from hotset.adapter import compat


class _Copier:
    """Copies KV blocks between the engine's cache and the CPU tier.

    Parameters
    ----------
    kv_caches : CanonicalKVCaches
        The engine's cache: int8 tensors of (blocks, page bytes), and for each KV
        cache group which of them hold its layers.
    blocks_per_chunk : int
        Engine blocks of a chunk.
    num_chunks : int
        Chunks of the tier.
    memory : list of Tensor, optional
        The tier, a tensor of (chunks, blocks_per_chunk, page bytes) for each one of the
        engine's cache; default tensors of its own.
    free : callable, optional
        Gives that memory back.
    """

    def __init__(
        self,
        kv_caches: Any,
        blocks_per_chunk: int,
        num_chunks: int,
        memory: list[Any] | None = None,
        free: Callable[[], None] | None = None,
    ) -> None:
        self._groups = kv_caches.group_data_refs
        self._blocks_per_chunk = blocks_per_chunk
        self._engine = [cache.tensor for cache in kv_caches.tensors]
        self._free = free
        self._tier = memory or [
            torch.zeros(
                (num_chunks, blocks_per_chunk, tensor.shape[1]), dtype=tensor.dtype
            )
            for tensor in self._engine
        ]
        self._done: list[Any] = []

    def get_finished(self) -> list[Any]:
        """Return the transfers done since the last call, each once."""
        done, self._done = self._done, []
        return done

    def wait(self, job_ids: set[int]) -> None:
        """Return at once: a transfer is done when it was submitted."""

    def shutdown(self) -> None:
        """Free the tier."""
        self._tier.clear()
        if self._free is not None:
            self._free()
            self._free = None

    def _copy(self, job_id: int, blocks: Any, chunks: Any, *, store: bool) -> bool:
        start = time.perf_counter()
        copied = 0
        # 64-bit before any arithmetic: ids come as int32 from vLLM 0.30 on.
        block_ids = blocks.block_ids.tolist()
        chunk_ids = chunks.block_ids.tolist()
        for group, (size, first) in enumerate(
            zip(blocks.group_sizes, blocks.block_indices, strict=True)
        ):
            skip = first % self._blocks_per_chunk
            used = -(-(size + skip) // self._blocks_per_chunk) if size else 0
            mine, block_ids = block_ids[:size], block_ids[size:]
            theirs, chunk_ids = chunk_ids[:used], chunk_ids[used:]
            places = [divmod(skip + j, self._blocks_per_chunk) for j in range(size)]
            at = torch.tensor(mine, dtype=torch.int64)
            chunk = torch.tensor([theirs[c] for c, _ in places], dtype=torch.int64)
            within = torch.tensor([w for _, w in places], dtype=torch.int64)
            for ref in self._groups[group]:
                engine, tier = self._engine[ref.tensor_idx], self._tier[ref.tensor_idx]
                if store:
                    tier[chunk, within] = engine[at]
                else:
                    engine[at] = tier[chunk, within]
                copied += size * engine.shape[1]
        seconds = time.perf_counter() - start
        self._done.append(
            compat.TRANSFER_RESULT(
                job_id=job_id,
                success=True,
                transfer_size=copied,
                transfer_time=seconds,
            )
        )
        return True


class CpuTransferWorker(_Copier, compat.TRANSFER_BASE):  # type: ignore[misc]
    """The copier as vLLM from 0.26 on wants it."""

    def submit_store(self, job_id: int, src_spec: Any, dst_spec: Any) -> bool:
        """Copy engine blocks into the tier."""
        return self._copy(job_id, src_spec, dst_spec, store=True)

    def submit_load(
        self, job_id: int, src_spec: Any, dst_spec: Any, expedited: bool = False
    ) -> bool:
        """Copy chunks of the tier into engine blocks."""
        return self._copy(job_id, dst_spec, src_spec, store=False)


class CpuTransferHandler(_Copier, compat.TRANSFER_BASE):  # type: ignore[misc]
    """The copier as vLLM up to 0.24 wants it."""

    def transfer_async(self, job_id: int, spec: tuple[Any, Any]) -> bool:
        """Copy from the first end to the second."""
        source, target = spec
        if hasattr(source, "group_sizes"):
            return self._copy(job_id, source, target, store=True)
        return self._copy(job_id, target, source, store=False)
