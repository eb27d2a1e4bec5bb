"""Generators of sessions: chats with think times, agents with long prefixes."""

import heapq
from dataclasses import dataclass

from hotset.traces.random_values import Draws, zipf_weights
from hotset.traces.request_log import (
    GrowingPrompt,
    IdSource,
    RequestLog,
    SharedPrefix,
)

LONGEST_TEXT_TOKENS = 1 << 24
"""Most tokens of one text; what a wide spread draws beyond it is cut."""


@dataclass(frozen=True)
class ChatOptions:
    """Multi-turn chats behind system prompts of Zipf popularity.

    Each turn's prompt is the last prompt, its output and new user text.

    Attributes
    ----------
    system_prompts : int
        System prompts there are.
    zipf_exponent : float
        How unequally popular they are.
    system_tokens : int
        Median length of a system prompt.
    user_tokens, output_tokens : int
        Median lengths of a user's text and of an answer.
    length_spread : float
        Standard deviation of the logarithm of all lengths.
    mean_turns : float
        Mean number of turns of a session, geometric.
    think_s : float
        Mean seconds between turns, exponential.
    sessions_per_s : float
        New sessions per second, Poisson.
    max_input_tokens : int
        Prompt length at which a session ends.
    """

    system_prompts: int = 50
    zipf_exponent: float = 1.0
    system_tokens: int = 2000
    user_tokens: int = 250
    output_tokens: int = 400
    length_spread: float = 0.7
    mean_turns: float = 6.0
    think_s: float = 120.0
    sessions_per_s: float = 0.5
    max_input_tokens: int = 32768


@dataclass(frozen=True)
class AgentsOptions:
    """Agents at work at the same time, each on a long prompt that grows fast.

    Each step's prompt is the last prompt, its output and a tool's result.

    Attributes
    ----------
    kinds : int
        Kinds of agents; those of a kind share instructions and tools.
    zipf_exponent : float
        How unequally popular the kinds are.
    shared_tokens : int
        Median length of a kind's instructions and tools.
    task_tokens, result_tokens, output_tokens : int
        Median lengths of a task, of a tool's result and of an answer.
    length_spread : float
        Standard deviation of the logarithm of all lengths.
    mean_steps : float
        Mean number of steps of an agent, geometric.
    step_s : float
        Mean seconds between steps, exponential.
    agents_per_s : float
        New agents per second, Poisson.
    max_input_tokens : int
        Prompt length at which an agent ends.
    """

    kinds: int = 4
    zipf_exponent: float = 1.0
    shared_tokens: int = 12000
    task_tokens: int = 3000
    result_tokens: int = 900
    output_tokens: int = 250
    length_spread: float = 0.8
    mean_steps: float = 30.0
    step_s: float = 8.0
    agents_per_s: float = 0.1
    max_input_tokens: int = 131072


@dataclass(frozen=True)
class _Shape:
    """What chats and agents have in common."""

    prefixes: int
    zipf_exponent: float
    prefix_tokens: int
    first_tokens: int
    next_tokens: int
    output_tokens: int
    length_spread: float
    mean_turns: float
    gap_s: float
    starts_per_s: float
    max_input_tokens: int


@dataclass
class _Session:
    """A session under way: its prompt, and requests it may still make."""

    prompt: GrowingPrompt
    turns_left: int
    number: int = -1
    output_tokens: int = 0


def chat(options: ChatOptions, requests: int, draws: Draws) -> RequestLog:
    """Generate chats.

    Parameters
    ----------
    options : ChatOptions
        Shape of the load.
    requests : int
        Number of requests, 1 or more.
    draws : Draws
        Source of randomness.

    Returns
    -------
    RequestLog
        The first requests of all sessions, in order of time.
    """
    shape = _Shape(
        prefixes=options.system_prompts,
        zipf_exponent=options.zipf_exponent,
        prefix_tokens=options.system_tokens,
        first_tokens=options.user_tokens,
        next_tokens=options.user_tokens,
        output_tokens=options.output_tokens,
        length_spread=options.length_spread,
        mean_turns=options.mean_turns,
        gap_s=options.think_s,
        starts_per_s=options.sessions_per_s,
        max_input_tokens=options.max_input_tokens,
    )
    return _run(shape, requests, draws)


def agents(options: AgentsOptions, requests: int, draws: Draws) -> RequestLog:
    """Generate agents at work.

    Parameters
    ----------
    options : AgentsOptions
        Shape of the load.
    requests : int
        Number of requests, 1 or more.
    draws : Draws
        Source of randomness.

    Returns
    -------
    RequestLog
        The first requests of all agents, in order of time.
    """
    shape = _Shape(
        prefixes=options.kinds,
        zipf_exponent=options.zipf_exponent,
        prefix_tokens=options.shared_tokens,
        first_tokens=options.task_tokens,
        next_tokens=options.result_tokens,
        output_tokens=options.output_tokens,
        length_spread=options.length_spread,
        mean_turns=options.mean_steps,
        gap_s=options.step_s,
        starts_per_s=options.agents_per_s,
        max_input_tokens=options.max_input_tokens,
    )
    return _run(shape, requests, draws)


def _run(shape: _Shape, requests: int, draws: Draws) -> RequestLog:
    """Play sessions in order of time until there are enough requests."""
    fresh = IdSource()
    prefixes = [
        SharedPrefix(_length(draws, shape.prefix_tokens, shape), fresh)
        for _ in range(shape.prefixes)
    ]
    weights = zipf_weights(shape.prefixes, shape.zipf_exponent)
    log = RequestLog()
    num_sessions = 0
    # (time, tie-breaker, session whose turn it is; None: a new one starts)
    events: list[tuple[float, int, _Session | None]] = [(0.0, 0, None)]
    num_events = 1
    while len(log) < requests:
        time_s, _, session = heapq.heappop(events)
        if session is None:
            start_s = time_s + draws.exponential(1.0 / shape.starts_per_s)
            heapq.heappush(events, (start_s, num_events, None))
            num_events += 1
            session = _start(shape, prefixes[draws.ranked(weights)], fresh, draws)
            session.number = num_sessions
            num_sessions += 1
        else:
            answer_tokens = session.output_tokens
            session.prompt.grow(
                answer_tokens + _length(draws, shape.next_tokens, shape)
            )
        session.output_tokens = _length(draws, shape.output_tokens, shape)
        session.turns_left -= 1
        prompt = session.prompt
        log.add(
            time_s, session.number, prompt.tokens, session.output_tokens, prompt.ids()
        )
        again_s = time_s + draws.exponential(shape.gap_s)
        if session.turns_left and prompt.tokens < shape.max_input_tokens:
            heapq.heappush(events, (again_s, num_events, session))
            num_events += 1
    return log


def _start(
    shape: _Shape, prefix: SharedPrefix, fresh: IdSource, draws: Draws
) -> _Session:
    prompt = GrowingPrompt(prefix, fresh)
    prompt.grow(_length(draws, shape.first_tokens, shape))
    return _Session(prompt, draws.geometric(shape.mean_turns))


def _length(draws: Draws, median: int, shape: _Shape) -> int:
    """Length of a text in tokens."""
    return min(draws.log_normal(median, shape.length_spread), LONGEST_TEXT_TOKENS)
