"""Questions about long contexts, some asked more often: a published measurement's kind.

A prompt is a short common head, one of several long contexts, then a question of its
own. Each round asks every hot context once and goes on with the others where the last
round left them. Defaults are of the workloads that the measurement calls W1, W1S and
W2: eight contexts, twelve rounds, two hot contexts that are asked twice as often.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from hotset.policies.errors import PolicyError
from hotset.traces.intern import densify
from hotset.traces.model import Provenance, Trace
from hotset.traces.random_values import Draws

BLOCK_TOKENS = 16
_MOST_REQUESTS = 1_000_000
_MOST_TOKENS = 1 << 24


@dataclass(frozen=True)
class QuestionOptions:
    """What is asked.

    Parameters
    ----------
    contexts, hot_contexts : int
        Contexts there are, and how many of them are hot.
    skew : float
        How many times as often a hot context is asked as another one, at least 1.
    rounds : int
        Rounds, each of which asks every hot context.
    swap_ratio : float
        Share of the requests that change places with the one before, in [0, 1].
    head_tokens, context_tokens, question_tokens : int
        Tokens of a prompt's parts.
    output_tokens : int
        Tokens of an answer.
    """

    contexts: int = 8
    hot_contexts: int = 2
    skew: float = 2.0
    rounds: int = 12
    swap_ratio: float = 0.25
    head_tokens: int = 27
    context_tokens: int = 12_050
    question_tokens: int = 130
    output_tokens: int = 24


def check_questions(options: QuestionOptions) -> None:
    """Raise PolicyError where an option is out of range."""
    most = {"contexts": 100_000, "rounds": 100_000}
    for name, value in asdict(options).items():
        if name == "skew":
            fits, allowed = 1 <= value <= 1000, "1 to 1000"
        elif name == "swap_ratio":
            fits, allowed = 0 <= value <= 1, "0 to 1"
        elif name == "hot_contexts":
            fits, allowed = 1 <= value <= options.contexts, "1 to contexts"
        else:
            limit = most.get(name, _MOST_TOKENS)
            fits, allowed = 1 <= value <= limit, f"1 to {limit:,}"
        if not fits:
            raise PolicyError(f"{name} {value:g}: allowed is {allowed}")
    if options.contexts * options.rounds > _MOST_REQUESTS:
        raise PolicyError(
            f"contexts {options.contexts}, rounds {options.rounds}: allowed are "
            f"{_MOST_REQUESTS:,} requests"
        )


def question_order(options: QuestionOptions, draws: Draws) -> list[int]:
    """Return the context of each request, in order.

    The draws say in which order contexts that are not hot take turns, and which
    requests come before the one ahead of them.
    """
    others = list(range(options.hot_contexts, options.contexts))
    keys = [draws.uniform() for _ in others]
    others = [each for _, each in sorted(zip(keys, others, strict=True))]
    order: list[int] = []
    asked = 0
    for number in range(1, options.rounds + 1):
        order += range(options.hot_contexts)
        due = int(number * len(others) / options.skew)
        order += [others[i % len(others)] for i in range(asked, due)]
        asked = due
    for i in range(1, len(order)):
        if draws.uniform() < options.swap_ratio:
            order[i - 1], order[i] = order[i], order[i - 1]
    return order


def questions(options: QuestionOptions, seed: int) -> Trace:
    """Return a trace of blocks of 16 tokens; equal arguments give equal traces.

    Raises
    ------
    PolicyError
        If an option is out of range.
    """
    check_questions(options)
    order = question_order(options, Draws(seed))
    settings = " ".join(f"{k}={v:g}" for k, v in asdict(options).items())
    return prompts_trace(
        order,
        (options.head_tokens, options.context_tokens, options.question_tokens),
        options.output_tokens,
        f"generate questions seed={seed} {settings}",
    )


def prompts_trace(
    contexts: Sequence[int],
    lengths: tuple[int, int, int],
    output_tokens: int,
    step: str,
) -> Trace:
    """Return prompts of a head, a context each and a question of its own as a trace.

    Parameters
    ----------
    contexts : sequence of int
        By request, the number of its context, from 0 on.
    lengths : (int, int, int)
        Tokens of head, context and question.
    output_tokens : int
        Tokens of each answer.
    step : str
        How the trace was made.
    """
    head, context, _own = lengths
    total = sum(lengths)
    num_full = total // BLOCK_TOKENS
    places = np.arange(num_full)
    numbers = np.asarray(contexts, np.int64)
    n = len(numbers)
    # Blocks of the common head have one owner, those of a context have its number,
    # and those with a question in them are their request's own.
    owners = np.repeat(numbers[:, None], num_full, axis=1)
    owners[:, places < head // BLOCK_TOKENS] = 0
    asked = places >= (head + context) // BLOCK_TOKENS
    own = int(numbers.max(initial=0)) + 1 + np.arange(n)
    owners[:, asked] = own[:, None]
    ids, _distinct = densify((owners * num_full + places).ravel())
    digest = hashlib.sha256(ids.astype("<i8").tobytes())
    digest.update(repr((lengths, output_tokens)).encode())
    return Trace(
        block_tokens=BLOCK_TOKENS,
        request_offsets=np.arange(n + 1, dtype=np.int64) * num_full,
        block_ids=ids,
        arrival_s=np.zeros(n),
        input_tokens=np.full(n, total, np.int64),
        output_tokens=np.full(n, output_tokens, np.int64),
        session=np.full(n, -1, np.int64),
        provenance=Provenance(
            "generate", "generate:questions", digest.hexdigest(), n, 0, steps=(step,)
        ),
        source_type=np.zeros(n, np.int16),
        source_type_names=("user",),
    )
