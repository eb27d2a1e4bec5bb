"""The recorder: what a server was asked, in files that `hotset replay` reads.

A request is noted on the scheduler thread when it ends: its lengths, tags and block
hashes, as they are. A thread of its own makes ids and text of them and writes. Between
the two is a bounded queue; what does not fit is counted and left out. At ``max_bytes``
the recording stops: it holds the first requests, not the last. In more than one file it
goes on, and the oldest file goes (`hotset.adapter.record_rotation`).

Sampling keeps or drops requests together that share blocks. A request counts by its
session where the client names one, and otherwise by its first block: equal blocks stand
behind equal first blocks, so what is kept has all the reuse that there was among it.
Where all untagged traffic begins with one system prompt it is kept or dropped as one,
and needs sessions to be sampled.

Nothing that goes wrong here reaches the engine: it is logged once and counted.
"""

from __future__ import annotations

import atexit
import logging
import queue
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hotset.adapter.record_file import RecordFile, read_secret
from hotset.adapter.record_rotation import RotatedFiles
from hotset.adapter.tags import Tags
from hotset.policies.request import SOURCE_TYPES
from hotset.traces.record import Naming, row

_LOG = logging.getLogger(__name__)

MAX_WAITING_BLOCKS = 1 << 20
MAX_WAITING_REQUESTS = 1 << 14
_BATCH = 256  # requests
_CLOSE_S = 5.0

# What becomes of a request, and what goes wrong.
RECORDED = "recorded"
NOT_SAMPLED = "not sampled"
NOT_SERVED = "not served"  # aborted before anything was computed or loaded
FULL = "full"  # behind max_bytes
BUSY = "busy"  # the writer was too far behind
FAILED = "failed"
OUTCOMES = (RECORDED, NOT_SAMPLED, NOT_SERVED, FULL, BUSY, FAILED)


@dataclass(frozen=True)
class RecordConfig:
    """Where and how much to record.

    Parameters
    ----------
    path : str
        The file; a key file of the same name with ``.key`` lies beside it.
    max_bytes : int
        Size of all files at the most.
    sample : float
        Share of the traffic, in (0, 1].
    files : int
        How many files; 1 stops when it is full.
    """

    path: str
    max_bytes: int = 1 << 30
    sample: float = 1.0
    files: int = 1

    def open(self) -> RecordFile | RotatedFiles:
        """Open what is recorded to.

        Raises
        ------
        OSError
            If no such file is to be had.
        """
        if self.files == 1:
            return RecordFile(Path(self.path), self.max_bytes)
        return RotatedFiles(Path(self.path), self.max_bytes, self.files)


@dataclass(frozen=True)
class Ended:
    """A request at its end.

    Parameters
    ----------
    arrival_s : float
        When it came, by the monotonic clock.
    input_tokens, output_tokens : int
        Lengths.
    hashes : list of bytes
        Of its full blocks, head first.
    tags : Tags
        What the client said.
    loaded, stored : int
        Blocks that the CPU tier gave and took.
    """

    arrival_s: float
    input_tokens: int
    output_tokens: int
    hashes: list[bytes]
    tags: Tags
    loaded: int
    stored: int


class Recorder:
    """Records requests until it is closed.

    Parameters
    ----------
    config : RecordConfig
        Where and how much.
    block_tokens : int
        Tokens of a block.

    Attributes
    ----------
    counts : Counter
        Requests by what became of them.
    """

    def __init__(self, config: RecordConfig, block_tokens: int) -> None:
        # All are there from the start: one thread counts while another reads.
        self.counts: Counter[str] = Counter(dict.fromkeys(OUTCOMES, 0))
        self.path: Path | None = None
        self._config = config
        self._block_tokens = block_tokens
        # Rows of several runs follow one another in time; within a run, by a clock
        # that nobody sets.
        self._epoch_s = time.time() - time.monotonic()
        self._waiting: queue.SimpleQueue[Ended | None] = queue.SimpleQueue()
        self._num_put = self._num_taken = 0  # blocks; each changed by one thread
        self._thread: threading.Thread | None = None
        self._has_failed = False
        try:
            self._naming = Naming(read_secret(Path(config.path)))
            self._file = config.open()
        except Exception as error:
            self._fail(error, "nothing is recorded")
            return
        self.path = self._file.path
        _LOG.info("hotset: recorder: requests go to %s", self.path)
        self._thread = threading.Thread(
            target=self._write_all, name="hotset-recorder", daemon=True
        )
        self._thread.start()
        atexit.register(self.close)

    def note(self, ended: Ended) -> None:
        """Take a request; never waits."""
        if self._thread is None:
            self.counts[FAILED] += 1
            return
        blocks = self._num_put - self._num_taken
        if blocks > MAX_WAITING_BLOCKS or self._waiting.qsize() >= MAX_WAITING_REQUESTS:
            self.counts[BUSY] += 1
            return
        self._num_put += len(ended.hashes)
        self._waiting.put(ended)

    def note_not_served(self) -> None:
        """Count a request that was aborted before anything was computed or loaded."""
        self.counts[NOT_SERVED] += 1

    def close(self) -> None:
        """Write what waits, and stop; may be called again."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        atexit.unregister(self.close)
        self._waiting.put(None)
        thread.join(_CLOSE_S)

    # On the writer's thread

    def _write_all(self) -> None:
        is_open = True
        while is_open:
            taken = [self._waiting.get()]
            while len(taken) < _BATCH and not self._waiting.empty():
                taken.append(self._waiting.get())
            requests = [ended for ended in taken if ended is not None]
            is_open = len(requests) == len(taken)
            self._num_taken += sum(len(ended.hashes) for ended in requests)
            self._write(requests)
        self._file.close()

    def _write(self, requests: list[Ended]) -> None:
        rows = [row for ended in requests if (row := self._made(ended)) is not None]
        if self._file.is_full:
            self.counts[FULL] += len(rows)
            return
        try:
            written = self._file.append(rows)
        except Exception as error:
            self.counts[FAILED] += len(rows)
            self._fail(error, "requests are left out")
            return
        self.counts[RECORDED] += written
        self.counts[FULL] += len(rows) - written
        if self._file.is_full:
            _LOG.warning(
                "hotset: the recording %s has its %d bytes and stops",
                self.path,
                self._config.max_bytes,
            )

    def _made(self, ended: Ended) -> bytes | None:
        """Return a request's row; None where it is not sampled or cannot be made."""
        try:
            if self._is_chosen(ended):
                return self._row(ended)
            self.counts[NOT_SAMPLED] += 1
        except Exception as error:
            self.counts[FAILED] += 1
            self._fail(error, "requests are left out")
        return None

    def _is_chosen(self, ended: Ended) -> bool:
        if self._config.sample >= 1.0:
            return True
        if ended.tags.session is not None:
            by = ended.tags.session.encode()
        else:
            by = ended.hashes[0] if ended.hashes else b""
        return self._naming.share(by) < self._config.sample

    def _row(self, ended: Ended) -> bytes:
        tags, more = ended.tags, {}
        if tags.session is not None:
            more["session_id"] = self._naming.name(tags.session)
        if tags.tenant is not None:
            more["tenant"] = self._naming.name(tags.tenant)
        if tags.source_type >= 0:
            more["type"] = SOURCE_TYPES[tags.source_type]
        said: dict[str, Any] = {
            "priority": tags.priority if tags.priority != 1.0 else None,
            "ttl_s": tags.ttl_s,
            "end_session": tags.end_session or None,
        }
        tier = {"loaded_blocks": ended.loaded, "stored_blocks": ended.stored}
        return row(
            (self._epoch_s + ended.arrival_s) * 1000.0,
            ended.input_tokens,
            ended.output_tokens,
            self._block_tokens,
            map(self._naming.block, ended.hashes),
            more | {k: v for k, v in said.items() if v is not None} | tier,
        )

    def _fail(self, error: Exception, so: str) -> None:
        """Log the first failure."""
        if not self._has_failed:
            self._has_failed = True
            _LOG.error("hotset: recorder, %s: %s: %s", self._config.path, so, error)
