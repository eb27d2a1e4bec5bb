"""Hardware profiles: a machine with a model on it, as a small TOML file.

A profile that was measured says so; one that was computed from data sheets says
``estimated = true`` and shows the arithmetic. Bundled ones go by their name.
"""

from __future__ import annotations

import dataclasses
import math
import tomllib
from collections.abc import Mapping, Set
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from hotset.policies.base import known_names
from hotset.policies.errors import PolicyError
from hotset.sim.cost import CostModel
from hotset.sim.engine import EngineSpec
from hotset.sim.ssd_traffic import SsdLinks
from hotset.sim.steps import BatchLimits
from hotset.sim.transfers import LinkSpec
from hotset.traces.errors import shorten

_TABLES = {
    "": {"name", "summary", "estimated", "arithmetic"},
    "model": {"kv_bytes_per_token"},
    "gpu": {"pool_tokens", "step_tokens", "max_sequences", "async_scheduling"},
    "cost": {field.name for field in dataclasses.fields(CostModel)},
    "links": {"cpu", "ssd"},
    "links.cpu": {"load_bytes_per_s", "store_bytes_per_s", "latency_s", "duplex"},
    "links.ssd": {"read_bytes_per_s", "write_bytes_per_s", "latency_s"},
}

# Beyond any machine, and small enough for sums of them to stay numbers.
_MOST_S = 1e6
_BYTES_PER_S = (1.0, 1e18)  # or inf: no time at all
_MOST_WHOLE = {
    "kv_bytes_per_token": 1 << 26,
    "pool_tokens": 1 << 40,
    "step_tokens": 1 << 40,
    "max_sequences": 1 << 20,
}


@dataclass(frozen=True)
class TierLink:
    """How a tier is reached.

    Parameters
    ----------
    load, store : LinkSpec
        To the GPU's side, and back.
    is_duplex : bool
        Whether both can go on at once at full bandwidth.
    """

    load: LinkSpec
    store: LinkSpec
    is_duplex: bool


@dataclass(frozen=True)
class Profile:
    """A machine with a model on it.

    Parameters
    ----------
    name, summary : str
        What it is.
    is_estimated : bool
        Whether it was computed rather than measured.
    arithmetic : tuple of str
        How it was computed.
    kv_bytes_per_token : int
        KV cache bytes of a token over all ranks.
    pool_tokens : int
        Tokens that the GPU's blocks hold.
    step_tokens, max_sequences : int
        Limits of one engine step.
    is_async : bool
        Whether the engine decides on a step before it has booked the one before.
    cost : CostModel
        Seconds of its work.
    cpu : TierLink
        How the CPU tier is reached.
    ssd : SsdLinks, optional
        How an SSD behind the CPU tier is reached.
    """

    name: str
    summary: str
    is_estimated: bool
    arithmetic: tuple[str, ...]
    kv_bytes_per_token: int
    pool_tokens: int
    step_tokens: int
    max_sequences: int
    is_async: bool
    cost: CostModel
    cpu: TierLink
    ssd: SsdLinks | None = None

    def engine(
        self,
        block_tokens: int,
        chunk_tokens: int,
        *,
        gpu_blocks: int | None = None,
        step_tokens: int | None = None,
        loads_if_faster: bool = False,
        offers_at_end: bool = False,
        has_ssd: bool = False,
    ) -> EngineSpec:
        """Return the machine for blocks and chunks of some size.

        Raises
        ------
        PolicyError
            If a step has no room for every sequence, the pool none for a block, or
            there is no link to an SSD that is asked for.
        """
        if gpu_blocks is not None and gpu_blocks < 2:
            raise PolicyError(
                f"--gpu-blocks {gpu_blocks}: at least 2 are needed, since one is unused"
            )
        blocks = self.pool_tokens // block_tokens + 1
        blocks = blocks if gpu_blocks is None else gpu_blocks
        if blocks < 2:
            raise PolicyError(
                f"a GPU pool of {self.pool_tokens} tokens holds no block of "
                f"{block_tokens} tokens"
            )
        if has_ssd and self.ssd is None:
            raise PolicyError(
                f"--ssd: profile {self.name} has no table [links.ssd] with "
                "read_bytes_per_s and write_bytes_per_s"
            )
        tokens = self.step_tokens if step_tokens is None else step_tokens
        if tokens < self.max_sequences:
            raise PolicyError(
                f"a step of {tokens} tokens has no room for {self.max_sequences} "
                "sequences, a token each"
            )
        return EngineSpec(
            cost=self.cost,
            gpu_blocks=blocks,
            limits=BatchLimits(tokens, self.max_sequences, block_tokens, chunk_tokens),
            kv_bytes_per_token=self.kv_bytes_per_token,
            load_link=self.cpu.load,
            store_link=self.cpu.store,
            is_duplex=self.cpu.is_duplex,
            loads_if_faster=loads_if_faster,
            offers_at_end=offers_at_end,
            is_async=self.is_async,
            ssd=self.ssd if has_ssd else None,
        )

    def as_json(self) -> dict[str, Any]:
        """Return the profile as JSON values; an infinite bandwidth is None."""
        values = dataclasses.asdict(self)
        for tier in filter(None, (values["cpu"], values["ssd"])):
            for link in tier.values():
                if isinstance(link, dict) and link["bytes_per_s"] == math.inf:
                    link["bytes_per_s"] = None
        return values


def bundled_profiles() -> list[str]:
    """Return the names of the bundled profiles."""
    folder = resources.files("hotset.sim") / "profiles"
    names = [entry.name for entry in folder.iterdir()]
    return sorted(name[:-5] for name in names if name.endswith(".toml"))


def load_profile(text: str) -> Profile:
    """Return a bundled profile by its name, or read one from a TOML file.

    Raises
    ------
    PolicyError
        If there is none, or it does not hold what it should.
    """
    if text.endswith(".toml"):
        try:
            content = Path(text).read_bytes()
        except OSError as error:
            raise PolicyError(f"--profile {text}: {error.strerror}") from None
    elif text in bundled_profiles():
        folder = resources.files("hotset.sim") / "profiles"
        content = (folder / f"{text}.toml").read_bytes()
    else:
        known = known_names(text, bundled_profiles())
        raise PolicyError(f"--profile {text}: no such profile{known}; or a .toml file")
    try:
        values = tomllib.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise PolicyError(f"--profile {text}: not TOML: {error}") from None
    try:
        return _Reader(values).profile()
    except PolicyError as error:
        raise PolicyError(f"--profile {text}: {error}") from None


class _Reader:
    """Checks the values of a profile and builds it."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def profile(self) -> Profile:
        self._check_keys("", and_also={"model", "gpu", "cost", "links"})
        estimated = self._values.get("estimated")
        if not isinstance(estimated, bool):
            raise PolicyError(f"estimated is {estimated!r}: true or false is needed")
        arithmetic = self._texts("arithmetic")
        if estimated and not arithmetic:
            raise PolicyError("an estimated profile shows its arithmetic")
        return Profile(
            name=self._text("name"),
            summary=self._text("summary"),
            is_estimated=estimated,
            arithmetic=arithmetic,
            kv_bytes_per_token=self._whole("model", "kv_bytes_per_token"),
            pool_tokens=self._whole("gpu", "pool_tokens"),
            step_tokens=self._whole("gpu", "step_tokens"),
            max_sequences=self._whole("gpu", "max_sequences"),
            is_async=self._flag("gpu", "async_scheduling", False),
            cost=self._cost(),
            cpu=self._link("links.cpu"),
            ssd=self._ssd(),
        )

    def _table(self, name: str) -> Mapping[str, Any]:
        table: Any = self._values
        for part in name.split(".") if name else []:
            table = table.get(part) if isinstance(table, Mapping) else None
        if not isinstance(table, Mapping):
            raise PolicyError(f"table [{name}] is missing")
        return table

    def _check_keys(self, name: str, and_also: Set[str] = frozenset()) -> None:
        known = _TABLES[name] | and_also
        for key in self._table(name):
            if key not in known:
                where = f"[{name}]" if name else "a profile"
                near = known_names(key, known)
                raise PolicyError(f"{where} has no {key!r}{near}")

    def _text(self, key: str) -> str:
        value = self._values.get(key, "")
        if not isinstance(value, str) or not value.isprintable():
            raise PolicyError(f"{key} is {value!r}: a line of text is needed")
        return value

    def _texts(self, key: str) -> tuple[str, ...]:
        values = self._values.get(key, [])
        if not isinstance(values, list) or not all(isinstance(v, str) for v in values):
            shown = shorten(repr(values))
            raise PolicyError(f"{key} is {shown}: a list of texts is needed")
        return tuple(values)

    def _whole(self, name: str, key: str) -> int:
        self._check_keys(name)
        value: Any = self._table(name).get(key)
        most = _MOST_WHOLE[key]
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if not (is_whole and 1 <= value <= most):
            raise PolicyError(
                f"[{name}] {key} is {value!r}: a whole number from 1 to {most:,} is "
                "needed"
            )
        return int(value)

    def _number(self, name: str, key: str, default: float | None = None) -> float:
        value: Any = self._table(name).get(key, default)
        low, high = _BYTES_PER_S if key.endswith("_bytes_per_s") else (0.0, _MOST_S)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        takes_no_time = value == math.inf and key.endswith("_bytes_per_s")
        if not (is_number and (low <= value <= high or takes_no_time)):
            raise PolicyError(
                f"[{name}] {key} is {value!r}: a number from {low:g} to {high:g} is "
                "needed"
            )
        return float(value)

    def _flag(self, name: str, key: str, default: bool) -> bool:
        value = self._table(name).get(key, default)
        if not isinstance(value, bool):
            raise PolicyError(f"[{name}] {key} is {value!r}: true or false is needed")
        return value

    def _cost(self) -> CostModel:
        self._check_keys("cost")
        names = [field.name for field in dataclasses.fields(CostModel)]
        return CostModel(**{name: self._number("cost", name) for name in names})

    def _link(self, name: str) -> TierLink:
        self._check_keys("links")
        self._check_keys(name)
        latency_s = self._number(name, "latency_s", 0.0)
        return TierLink(
            LinkSpec(self._number(name, "load_bytes_per_s"), latency_s),
            LinkSpec(self._number(name, "store_bytes_per_s"), latency_s),
            self._flag(name, "duplex", True),
        )

    def _ssd(self) -> SsdLinks | None:
        name = "links.ssd"
        if "ssd" not in self._table("links"):
            return None
        self._check_keys(name)
        latency_s = self._number(name, "latency_s", 0.0)
        return SsdLinks(
            read=LinkSpec(self._number(name, "read_bytes_per_s"), latency_s),
            write=LinkSpec(self._number(name, "write_bytes_per_s"), latency_s),
        )
