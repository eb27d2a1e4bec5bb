"""Requests whose kind changes, so that no one policy is the best throughout."""

import random

from strategies import Forest


def _sessions(draw, count, requests, new_id):
    """More sessions at a time than fit, each coming back after a while, and growing."""
    paths, live = [], []
    for _ in range(requests):
        while len(live) < count:
            live.append([new_id() for _ in range(draw.randrange(3, 6))])
        at = min(int(draw.expovariate(0.5)), count - 1)
        session = live.pop(at)
        session.append(new_id())
        paths.append(list(session))
        if draw.random() < 0.85:
            live.append(session)
    return paths


def _scans(draw, requests, new_id):
    """A few hot prompts, and many that never come back."""
    hot = [[new_id() for _ in range(3)] for _ in range(3)]
    return [
        draw.choice(hot)
        if draw.random() < 0.4
        else [new_id() for _ in range(draw.randrange(1, 5))]
        for _ in range(requests)
    ]


def mixed(seed):
    """Traffic that changes its kind, twice."""
    draw = random.Random(seed)
    ids = iter(range(10**6))

    def new_id():
        return next(ids)

    paths = [
        *_sessions(draw, 6, 150, new_id),
        *_scans(draw, 150, new_id),
        # Whatever was used last comes back: nothing beats LRU here.
        *[path for path in _sessions(draw, 1, 60, new_id) for _ in range(2)],
    ]
    in_order = {}
    return Forest(
        [[in_order.setdefault(i, len(in_order)) for i in path] for path in paths]
    )
