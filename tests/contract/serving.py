"""Serves requests through a `PolicyDriver`, one at a time."""

from hotset.policies import ADMISSIONS, POLICIES
from hotset.policies.driver import PolicyDriver, Status


def online_names():
    """Registered policies that can run in a server."""
    specs = [POLICIES.get(name) for name in POLICIES.names()]
    return [spec.name for spec in specs if not (spec.offline or spec.unbounded)]


# Parameters under which policies that refuse make room for a newcomer.
WITH_ROOM = {"guard": "guard:distance=0", "tinylfu": "tinylfu:window=0.5"}


def storing_texts():
    """The same, with parameters under which they make room for a newcomer."""
    return [WITH_ROOM.get(name, name) for name in online_names()]


def make_driver(text, capacity, admission_text="always"):
    spec, params = POLICIES.parse(text)
    admission, admission_params = ADMISSIONS.parse(admission_text)
    return PolicyDriver(spec, params, capacity, admission, admission_params)


def leading_hits(driver, keys):
    """How many leading keys are readable."""
    for i, key in enumerate(keys):
        if driver.lookup(key) is not Status.HIT:
            return i
    return len(keys)


def serve(driver, keys, batch=None, **about):
    """One whole request; returns its hit blocks and the evicted keys.

    The missing keys are offered in batches of ``batch``, default all at once.
    """
    keys = list(keys)
    hits = leading_hits(driver, keys)
    mine = [key for key in keys if key in driver]
    request = driver.begin(num_blocks=len(keys), **about)
    driver.observe(request, keys)
    driver.note_lookup(keys[: hits + 1])
    evicted = []
    for first in range(0, len(keys), batch or max(len(keys), 1)):
        part = keys[first : first + (batch or len(keys))]
        depths = range(first, first + len(part))
        stored = driver.offer(request, part, list(depths))
        if stored is not None:
            driver.complete(stored.keys)
            evicted += stored.evicted
    driver.hit(request, mine)
    driver.finish(request, keys)
    return hits, evicted
