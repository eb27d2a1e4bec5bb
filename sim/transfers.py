"""Links between tiers: bandwidth, latency, and a queue for whoever comes later.

A link moves one transfer at a time, at its full bandwidth; the others wait in order of
urgency, then of arrival. The latency behind the last byte keeps no one else waiting.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import simpy

from hotset.policies.errors import PolicyError
from hotset.sim.meter import Meter

LOAD = 0  # urgency of a transfer that a request waits for
STORE = 1


@dataclass(frozen=True)
class LinkSpec:
    """A link as a profile states it.

    Parameters
    ----------
    bytes_per_s : float
        Bandwidth, above 0; infinite for a link that takes no time.
    latency_s : float
        Seconds between the last byte's departure and its arrival, 0 or more.

    Raises
    ------
    PolicyError
        If a value is out of range.
    """

    bytes_per_s: float
    latency_s: float = 0.0

    def __post_init__(self) -> None:
        if not self.bytes_per_s > 0:
            raise PolicyError(
                f"bytes_per_s is {self.bytes_per_s}: more than 0 is needed"
            )
        if not 0 <= self.latency_s < float("inf"):
            raise PolicyError(f"latency_s is {self.latency_s}: 0 or more is needed")

    def seconds(self, num_bytes: float) -> float:
        """Return the time of one transfer when nobody else uses the link."""
        return num_bytes / self.bytes_per_s + self.latency_s


class Link:
    """A link in a simulation.

    Parameters
    ----------
    env : simpy.Environment
        The simulation.
    spec : LinkSpec
        Bandwidth and latency.
    shared : Link, optional
        A link that this one takes turns with, transfer by transfer: two directions of
        one device.
    """

    def __init__(
        self, env: simpy.Environment, spec: LinkSpec, shared: Link | None = None
    ) -> None:
        self.spec = spec
        self.num_bytes = 0
        self.num_transfers = 0
        self.busy = Meter(env)  # 1 while bytes move
        self.wait_s = 0.0
        self._env = env
        self._lane: simpy.PriorityResource = (
            simpy.PriorityResource(env) if shared is None else shared._lane
        )

    @property
    def num_waiting(self) -> int:
        """Transfers that wait for the one under way."""
        return len(self._lane.queue)

    def transfer(
        self, num_bytes: int, urgency: int = STORE
    ) -> Generator[simpy.Event, Any, None]:
        """Move bytes; the process ends when the last of them has arrived.

        Parameters
        ----------
        num_bytes : int
            How many, 0 or more.
        urgency : int
            `LOAD` or `STORE`: the lower goes first where several wait.
        """
        env, spec = self._env, self.spec
        asked_s = env.now
        with self._lane.request(priority=urgency) as turn:
            yield turn
            self.wait_s += env.now - asked_s
            self.busy.set(1)
            yield env.timeout(num_bytes / spec.bytes_per_s)
            self.busy.set(0)
        self.num_bytes += num_bytes
        self.num_transfers += 1
        if spec.latency_s:
            yield env.timeout(spec.latency_s)
