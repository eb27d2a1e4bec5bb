"""Requests at their end, as the engine knows them: counted, and recorded.

vLLM tells a manager of a request's id and of chunks. Prompt length, GPU hit and block
hashes are the engine's own; where they cannot be found only chunks are counted.
"""

from __future__ import annotations

import atexit
import logging
from collections.abc import Callable
from typing import Any

from hotset.adapter import compat
from hotset.adapter.live import Live
from hotset.adapter.recorder import Ended, Recorder
from hotset.adapter.tally import Tally

_LOG = logging.getLogger(__name__)


class Endings:
    """The requests of one manager.

    Parameters
    ----------
    tally : Tally
        Counts them.
    find : callable, optional
        Returns the engine's own state of a request of an id, None where there is none.
    recorder : Recorder, optional
        Records them.
    blocks_per_chunk, chunk_tokens : int
        Size of a chunk of the tier, in blocks as they are recorded and in tokens.
    """

    def __init__(
        self,
        tally: Tally,
        find: Callable[[str], Any] | None = None,
        recorder: Recorder | None = None,
        blocks_per_chunk: int = 1,
        chunk_tokens: int = 1,
    ) -> None:
        self.tally = tally
        self.recorder = recorder
        self._find = find
        self._blocks_per_chunk = blocks_per_chunk
        self._chunk_tokens = chunk_tokens
        self._has_failed = False
        self._begun: dict[str, Live] = {}
        if recorder is not None:
            atexit.register(self.close)

    def begin(self, live: Live, req_id: str) -> None:
        """Take note of a request that begins."""
        self._begun[req_id] = live

    def meet(self, live: Live, req_id: str) -> None:
        """Find the engine's own request, and what the GPU cache had of it."""
        state = None if self._find is None else self._find(req_id)
        if state is not None:  # up to 0.22 it is gone before the end is told
            live.asked = compat.request_of(state)
            live.gpu_tokens = compat.local_tokens(state)

    def end(self, live: Live, req_id: str) -> None:
        """Count and record a request, once; nothing that fails reaches the caller."""
        if self._begun.pop(req_id, None) is None:
            return
        try:
            self.tally.note_end()
            self.meet(live, req_id)
            request, live.asked = live.asked, None
            if not _was_served(request):
                if self.recorder is not None:
                    self.recorder.note_not_served()
                return
            self._count(live, int(request.num_prompt_tokens))
            if self.recorder is not None:
                self.recorder.note(self._ended(live, request))
        except Exception as error:
            if not self._has_failed:
                self._has_failed = True
                _LOG.error("hotset: ends of requests cannot be counted: %r", error)

    def close(self) -> None:
        """Write what waits to be recorded; may be called again.

        vLLM tells of an end in the next step: of the last requests it never does.
        """
        atexit.unregister(self.close)
        for req_id, live in list(self._begun.items()):
            self.end(live, req_id)
        if self.recorder is not None:
            self.recorder.close()

    def _count(self, live: Live, input_tokens: int) -> None:
        from_ssd = live.num_from_ssd * self._chunk_tokens
        from_cpu = live.num_loaded * self._chunk_tokens - from_ssd
        # The first chunk is loaded from where the GPU's hit ends.
        had = live.gpu_tokens % self._chunk_tokens if live.num_loaded else 0
        if live.is_head_from_ssd:
            from_ssd -= had
        else:
            from_cpu -= had
        self.tally.note_prompt(input_tokens, live.gpu_tokens, from_cpu, from_ssd)

    def _ended(self, live: Live, request: Any) -> Ended:
        return Ended(
            live.arrival_s,
            int(request.num_prompt_tokens),
            int(request.num_output_tokens),
            list(request.block_hashes),
            live.tags,
            live.num_loaded * self._blocks_per_chunk,
            live.num_stored * self._blocks_per_chunk,
        )


def _was_served(request: Any) -> bool:
    """Return whether anything was ever computed or loaded for a request."""
    if request is None:
        return False
    # A preemption takes back what was computed.
    return request.num_computed_tokens > 0 or getattr(request, "num_preemptions", 0) > 0
