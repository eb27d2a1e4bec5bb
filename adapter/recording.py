"""What the recorder is told of a request: found with the engine, noted at the end."""

from __future__ import annotations

import atexit
import logging
from collections.abc import Callable
from typing import Any

from hotset.adapter.live import Live
from hotset.adapter.recorder import Ended, Recorder

_LOG = logging.getLogger(__name__)


class Recording:
    """Requests of one manager, on their way to a recorder.

    Parameters
    ----------
    recorder : Recorder
        Where they go.
    find : callable
        Returns the engine's own request of an id, None where there is none.
    blocks_per_chunk : int
        Blocks of a chunk of the tier.
    """

    def __init__(
        self, recorder: Recorder, find: Callable[[str], Any], blocks_per_chunk: int = 1
    ) -> None:
        self.recorder = recorder
        self._find = find
        self._blocks_per_chunk = blocks_per_chunk
        self._num_faults = 0
        self._begun: dict[str, Live] = {}
        atexit.register(self.close)

    def begin(self, live: Live, req_id: str) -> None:
        """Take note of a request that begins."""
        self._begun[req_id] = live

    def meet(self, live: Live, req_id: str) -> None:
        """Find the engine's request of a record, once."""
        if live.asked is None:
            live.asked = self._find(req_id)

    def end(self, live: Live, req_id: str) -> None:
        """Record a request, once; nothing that fails here reaches the caller."""
        try:
            self.meet(live, req_id)
            self._begun.pop(req_id, None)
            asked, live.asked = live.asked, _DONE
            if asked is _DONE:
                return
            if not _was_served(asked):
                self.recorder.note_not_served()
                return
            ended = Ended(
                live.arrival_s,
                int(asked.num_prompt_tokens),
                int(asked.num_output_tokens),
                list(asked.block_hashes),
                live.tags,
                live.num_loaded * self._blocks_per_chunk,
                live.num_stored * self._blocks_per_chunk,
            )
            self.recorder.note(ended)
        except Exception as error:
            self._num_faults += 1
            if self._num_faults == 1:
                _LOG.error("hotset: requests cannot be recorded: %r", error)

    def close(self) -> None:
        """Write what waits; may be called again.

        vLLM tells of an end in the next step: of the last requests it never does.
        """
        atexit.unregister(self.close)
        for req_id, live in list(self._begun.items()):
            self.end(live, req_id)
        self.recorder.close()


def _was_served(asked: Any) -> bool:
    """Return whether anything was ever computed or loaded for a request."""
    if asked is None:
        return False
    # A preemption takes back what was computed.
    return asked.num_computed_tokens > 0 or getattr(asked, "num_preemptions", 0) > 0


class _Done:
    """Stands for a request that is recorded."""


_DONE = _Done()
