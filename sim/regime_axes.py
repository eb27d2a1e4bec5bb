"""What a regime map varies: its two dimensions, and the workload of each place.

A dimension is the budget, or a property of the workload under one name for every
generator that has it. A generator makes a trace for each seed; a trace as it is has one
place along every dimension but budget and GPU blocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from fractions import Fraction
from typing import Any

from hotset.policies.base import known_names
from hotset.policies.errors import PolicyError
from hotset.sim.capacity import Capacity, parse_capacity
from hotset.sim.questions import QuestionOptions, questions
from hotset.traces.generate import KINDS, generate, options_of
from hotset.traces.model import Trace

PREFIX = "generate:"
QUESTIONS = "questions"
BUDGET, HOT_OVER_BUDGET, GPU_BLOCKS = "budget", "hot-over-budget", "gpu-blocks"
MOST_STEPS = 32
_MOST_GPU_BLOCKS = 100_000_000

# Names that dimensions have for every generator, and what each generator calls them.
_SAME = {
    "skew": {QUESTIONS: "skew", "chat": "zipf_exponent", "agents": "zipf_exponent"},
    "scan": {"hot-scan": "scan_ratio"},
    "think": {"chat": "think_s", "agents": "step_s"},
}
_SESSIONS = "sessions"  # as many at once, on average: rate * turns * seconds between
_RATES = {
    "chat": ("sessions_per_s", "mean_turns", "think_s"),
    "agents": ("agents_per_s", "mean_steps", "step_s"),
}
_LABELS = {
    BUDGET: "budget",
    HOT_OVER_BUDGET: "hot set over budget, ratio",
    GPU_BLOCKS: "GPU cache, blocks",
    "skew": "skew of re-access",
    "scan": "share of requests that scan",
    "think": "time between turns, s",
    _SESSIONS: "sessions at once",
}


@dataclass(frozen=True)
class Axis:
    """A dimension and its values, as texts in the user's order."""

    name: str
    values: tuple[str, ...]

    @property
    def label(self) -> str:
        """What pictures call it, with its unit."""
        return _LABELS.get(self.name, self.name.replace("_", " "))


def parse_axis(text: str, option: str) -> Axis:
    """Read ``NAME=VALUE,VALUE,...``.

    Raises
    ------
    PolicyError
        If it is none, or has a value twice or too many.
    """
    name, _, values = text.partition("=")
    parts = tuple(part.strip() for part in values.split(","))
    if not name or not all(parts):
        raise PolicyError(f"{option} {text}: allowed is NAME=VALUE,VALUE,...")
    if len(set(parts)) < len(parts):
        raise PolicyError(f"{option} {text}: a value is there twice")
    if len(parts) > MOST_STEPS:
        raise PolicyError(
            f"{option} {name}: {len(parts)} values, allowed are {MOST_STEPS}"
        )
    return Axis(name.strip(), parts)


@dataclass(frozen=True)
class Supply:
    """Where workloads come from: a trace, or a generator.

    Parameters
    ----------
    trace : Trace, optional
        The trace, instead of a generator.
    kind : str
        The generator, "" with a trace.
    options : mapping of str to number
        The generator's options that differ from its defaults.
    requests : int
        Requests of a generated trace; ``questions`` has rounds instead.
    """

    trace: Trace | None = None
    kind: str = ""
    options: Mapping[str, float] = field(default_factory=dict)
    requests: int = 2000

    @property
    def name(self) -> str:
        """What results call it."""
        if self.trace is not None:
            return self.trace.provenance.path
        return PREFIX + self.kind

    def defaults(self) -> dict[str, float]:
        """Return the generator's options with their defaults."""
        if self.trace is not None:
            return {}
        if self.kind == QUESTIONS:
            return asdict(QuestionOptions())
        return options_of(self.kind)

    def dimensions(self) -> list[str]:
        """Return what can be varied."""
        if self.trace is not None:
            return [BUDGET, GPU_BLOCKS]
        same = [name for name, of in _SAME.items() if self.kind in of]
        sessions = [_SESSIONS] if self.kind in _RATES else []
        hot = [] if self.kind == "agents" else [HOT_OVER_BUDGET]
        every = [BUDGET, *hot, GPU_BLOCKS, *same, *sessions, *self.defaults()]
        return list(dict.fromkeys(every))

    def make(self, options: Mapping[str, float], seed: int) -> Trace:
        """Return the trace of a seed; the trace itself where there is one.

        Raises
        ------
        PolicyError, TraceError
            If an option is unknown or out of range.
        """
        if self.trace is not None:
            return self.trace
        if self.kind == QUESTIONS:
            types = {each.name: each.type for each in fields(QuestionOptions)}
            chosen: dict[str, Any] = dict(options)
            for name, value in options.items():
                if types[name] == "int":
                    if value % 1:
                        raise PolicyError(f"{name} {value:g}: a whole number is needed")
                    chosen[name] = int(value)
            return questions(QuestionOptions(**chosen), seed)
        return generate(self.kind, self.requests, seed, **dict(options))


def make_supply(kind: str, settings: Sequence[str], requests: int) -> Supply:
    """Return the supply of a generator.

    Raises
    ------
    PolicyError
        If there is no such generator, or an option is none of its own.
    """
    kinds = (QUESTIONS, *KINDS)
    if kind not in kinds:
        raise PolicyError(f"unknown generator {kind!r}" + known_names(kind, kinds))
    plain = Supply(kind=kind)
    options: dict[str, float] = {}
    for text in settings:
        name, _, value = text.partition("=")
        if name not in plain.defaults():
            known = known_names(name, plain.defaults())
            raise PolicyError(f"--set {name}: unknown option" + known)
        if name in options:
            raise PolicyError(f"--set {name}: it is set twice")
        options[name] = _number(value, f"--set {name}")
    return Supply(kind=kind, options=options, requests=requests)


@dataclass(frozen=True)
class Place:
    """A place of the map: what is generated, and the sizes it is replayed with.

    Parameters
    ----------
    options : tuple of (str, float)
        Of the generator, by name.
    capacity : Capacity
        The budget.
    gpu_blocks : int
        As in `RunConfig`.
    """

    options: tuple[tuple[str, float], ...]
    capacity: Capacity
    gpu_blocks: int


def check_axes(supply: Supply, x: Axis, y: Axis, budget: str | None) -> None:
    """Raise PolicyError where the dimensions do not go together."""
    for option, axis in (("--x", x), ("--y", y)):
        if axis.name not in supply.dimensions():
            known = known_names(axis.name, supply.dimensions())
            raise PolicyError(f"{option} {axis.name}: not of {supply.name}" + known)
    if x.name == y.name:
        raise PolicyError(f"--y {y.name}: that is --x already")
    _check_options(supply, x, y)
    given = [n for n in (x.name, y.name) if n in (BUDGET, HOT_OVER_BUDGET)]
    given += [] if budget is None else ["--budget"]
    if len(given) != 1:
        raise PolicyError(
            f"the budget is given {len(given)} times: allowed is one of --budget, "
            f"{BUDGET} and {HOT_OVER_BUDGET}"
        )


def _own_name(supply: Supply, name: str) -> str:
    """Return what the generator calls the option that a dimension sets."""
    if name == _SESSIONS and supply.kind in _RATES:
        return _RATES[supply.kind][0]
    return _SAME.get(name, {}).get(supply.kind, name)


def _check_options(supply: Supply, x: Axis, y: Axis) -> None:
    """Raise PolicyError where an option of the generator would be set twice."""
    taken = {name: f"--set {name}" for name in supply.options}
    for option, axis in (("--x", x), ("--y", y)):
        own = _own_name(supply, axis.name)
        if own in taken:
            what = "it is" if own == axis.name else f"it sets {own}, which is"
            raise PolicyError(f"{option} {axis.name}: {what} set by {taken[own]}")
        taken[own] = f"{option} {axis.name}"


def place(
    supply: Supply, settings: Mapping[str, str], budget: str | None, gpu_blocks: int
) -> Place:
    """Return the place of some settings.

    Parameters
    ----------
    supply : Supply
        Where workloads come from.
    settings : mapping of str to str
        Value by dimension.
    budget : str or None
        The budget, where no dimension is.
    gpu_blocks : int
        GPU blocks, where no dimension is.

    Raises
    ------
    PolicyError
        If a value is no number.
    """
    options = dict(supply.options)
    ratio = None
    capacity = None if budget is None else parse_capacity(budget, "--budget")
    for name, text in settings.items():
        if name == BUDGET:
            capacity = parse_capacity(text, BUDGET)
        elif name == GPU_BLOCKS:
            gpu_blocks = _whole(text, GPU_BLOCKS)
        elif name == HOT_OVER_BUDGET:
            ratio = _number(text, HOT_OVER_BUDGET)
        elif name != _SESSIONS:
            options[_own_name(supply, name)] = _number(text, name)
    # Of the other options, whichever of the two dimensions they come from.
    if _SESSIONS in settings:
        rate, turns, gap_s = _RATES[supply.kind]
        values = {**supply.defaults(), **options}
        count = _number(settings[_SESSIONS], _SESSIONS)
        options[rate] = count / (values[turns] * values[gap_s])
    if ratio is not None:
        capacity = _of_ratio({**supply.defaults(), **options}, supply.kind, ratio)
    assert capacity is not None
    if gpu_blocks != 0 and not 2 <= gpu_blocks <= _MOST_GPU_BLOCKS:
        raise PolicyError(
            f"{GPU_BLOCKS} {gpu_blocks}: allowed is 0 or 2 to {_MOST_GPU_BLOCKS}"
        )
    return Place(tuple(sorted(options.items())), capacity, gpu_blocks)


def _of_ratio(values: Mapping[str, float], kind: str, ratio: float) -> Capacity:
    """Return the budget that the hot set is that many times as large as."""
    if ratio <= 0:
        raise PolicyError(f"{HOT_OVER_BUDGET} {ratio:g}: above 0 is needed")
    if kind == QUESTIONS:
        hot = values["head_tokens"] + values["hot_contexts"] * values["context_tokens"]
        blocks = hot / 16
    elif kind == "chat":
        blocks = values["system_prompts"] * values["system_tokens"] / 512
    else:
        contexts = values.get("hot_contexts", values.get("contexts", 0))
        blocks = contexts * values["context_blocks"]
    size = max(int(blocks / ratio), 1)
    return Capacity(f"{size}", Fraction(size), "blocks", HOT_OVER_BUDGET)


def _whole(text: str, name: str) -> int:
    number = _number(text, name)
    if number % 1:
        raise PolicyError(f"{name} {text[:80]}: a whole number is needed")
    return int(number)


def _number(text: str, name: str) -> float:
    """Return a number, a whole one as int."""
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        if abs(value) < 1e18:
            return value
    raise PolicyError(f"{name} {text[:80]}: a number is needed")
