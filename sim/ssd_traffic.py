"""Reads from and writes to the SSD in simulated time.

One device takes turns: reads go before writes, and writes go in pieces, so that a read
waits for one piece at the most.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import simpy

from hotset.sim.tiers import TwoTiers
from hotset.sim.transfers import LOAD, STORE, Link, LinkSpec

_PIECE_BYTES = 64 << 20


@dataclass(frozen=True)
class SsdLinks:
    """How an SSD is reached.

    Parameters
    ----------
    read, write : LinkSpec
        To the CPU tier's memory, and from it; the two take turns.
    """

    read: LinkSpec
    write: LinkSpec


class SsdTraffic:
    """Moves what a pair of tiers asks for.

    Parameters
    ----------
    env : simpy.Environment
        The simulation.
    links : SsdLinks
        Bandwidths and latencies.
    tiers : TwoTiers
        Who asks.
    on_move : callable
        Called when something has been moved.
    """

    def __init__(
        self,
        env: simpy.Environment,
        links: SsdLinks,
        tiers: TwoTiers,
        on_move: Callable[[], None],
    ) -> None:
        self.read_link = Link(env, links.read)
        self.write_link = Link(env, links.write, self.read_link)
        self.num_moving = 0
        self._env = env
        self._tiers = tiers
        self._on_move = on_move
        self._over: list[tuple[list[int], int]] = []  # chunks, `LOAD` or `STORE`

    def begin(self) -> None:
        """Start what the tiers have asked for since the last time."""
        tiers = self._tiers
        for keys in tiers.reads:
            self._start(keys, LOAD)
        for keys in tiers.writes:
            self._start(keys, STORE)
        tiers.reads.clear()
        tiers.writes.clear()

    def report(self) -> None:
        """Tell the tiers of what is over."""
        over, self._over = self._over, []
        for keys, kind in over:
            if kind == LOAD:
                self._tiers.end_read(keys)
            else:
                self._tiers.end_write(keys)

    def _start(self, keys: list[int], kind: int) -> None:
        self.num_moving += 1
        self._env.process(self._move(keys, kind))

    def _move(self, keys: list[int], kind: int) -> Generator[simpy.Event, Any, None]:
        left = len(keys) * self._tiers.ssd.chunk_bytes
        if kind == LOAD:
            yield from self.read_link.transfer(left, LOAD)
        else:
            while left > 0:
                piece = min(left, _PIECE_BYTES)
                yield from self.write_link.transfer(piece, STORE)
                left -= piece
        self.num_moving -= 1
        self._over.append((keys, kind))
        self._on_move()
