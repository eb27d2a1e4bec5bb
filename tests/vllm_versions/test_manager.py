"""The manager by itself: races, stale reports, wrong calls, in any order."""

import random

import pytest

pytestmark = pytest.mark.vllm


@pytest.fixture
def make():
    from support.manager_calls import Calls

    return Calls


def answers():
    from support import manager_calls

    return manager_calls.HIT, manager_calls.MISS, manager_calls.PENDING


def test_what_a_lookup_found_stays_until_it_is_loaded(make):
    """20 found, then 18 are wanted for another request, then the 20 are loaded."""
    hit, _, _ = answers()
    calls = make(20)
    keys = calls.keys("a", 20)
    calls.store("first", keys)
    assert calls.lookup("second", keys) == [hit] * 20
    assert calls.offer("third", calls.keys("b", 18)) is None
    assert sorted(calls.load("second", keys)) == list(range(20))
    calls.loaded("second", keys)
    calls.step()
    assert calls.offer("third", calls.keys("b", 18)) is not None


@pytest.mark.parametrize("end", ["step", "finish"])
def test_what_a_lookup_found_is_let_go(make, end):
    calls = make(4)
    keys = calls.keys("a", 4)
    calls.store("first", keys)
    calls.lookup("second", keys)
    assert calls.offer("third", calls.keys("b", 1)) is None
    if end == "step":
        calls.step()
    else:
        calls.finish("second")
    assert calls.store("third", calls.keys("b", 1)) == [keys[3]]


def test_a_load_of_what_is_not_there_is_refused_and_pins_nothing(make):
    from hotset.adapter.errors import AdapterError

    calls = make(4)
    keys = calls.keys("a", 2)
    calls.store("first", keys)
    with pytest.raises(AdapterError, match=r"3 chunks .* 1 of them"):
        calls.load("second", [*keys, *calls.keys("b", 1)])
    taken, _ = calls.offer("third", calls.keys("c", 1))
    with pytest.raises(AdapterError, match="1 of them"):
        calls.load("second", taken)
    assert calls.num_pinned == 1  # the one being written


def test_reports_of_before_a_reset_change_nothing(make):
    """Even where the same keys are read and written again."""
    hit, miss, pending = answers()
    calls = make(4)
    keys = calls.keys("a", 2)
    calls.store("first", keys)
    calls.load("reader", keys)
    writing, _ = calls.offer("writer", calls.keys("b", 2))
    calls.manager.reset_cache()
    assert calls.num_pinned == 0
    assert calls.lookup("x", keys + writing) == [miss] * 4

    again, _ = calls.offer("other", keys)
    assert again == keys
    calls.stored("other", keys)
    calls.load("other reader", keys)
    calls.offer("other writer", writing)
    calls.loaded("reader", keys)
    calls.stored("writer", writing)
    assert calls.lookup("x", keys + writing) == [hit, hit, pending, pending]
    assert calls.num_pinned == 4
    calls.stored("writer", writing, success=False)
    assert calls.lookup("x", writing) == [pending] * 2
    calls.loaded("other reader", keys)
    calls.stored("other writer", writing)
    assert calls.num_pinned == 0
    assert calls.manager.num_faults == 0


def test_reports_of_unknown_keys_and_requests_change_nothing(make):
    calls = make(4)
    keys = calls.keys("a", 2)
    calls.store("first", keys)
    for name in ("first", "nobody"):
        for wrong in (keys, calls.keys("b", 3), []):
            calls.loaded(name, wrong)
            calls.stored(name, wrong)
            calls.stored(name, wrong, success=False)
    assert calls.num_pinned == 0
    assert len(calls.driver) == 2
    calls.load("reader", keys)
    calls.loaded("first", keys)
    assert calls.num_pinned == 2
    calls.loaded("reader", keys)
    calls.loaded("reader", keys)
    assert calls.num_pinned == 0
    assert calls.manager.num_faults == 0


def test_a_failed_store_is_a_miss_and_no_event(make):
    _, miss, _ = answers()
    calls = make(4, enable_events=True)
    keys = calls.keys("a", 3)
    calls.offer("a", keys)
    calls.stored("a", keys, success=False)
    calls.stored("a", keys, success=False)
    assert calls.lookup("b", keys) == [miss] * 3
    assert calls.driver.num_free == 4
    assert calls.step() == []
    calls.store("c", keys)
    (event,) = calls.step()
    assert (sorted(event.keys), event.removed) == (keys, False)
    calls.store("d", calls.keys("d", 2))
    removed, stored = calls.step()
    assert (removed.keys, removed.removed) == ([keys[2]], True)
    assert not stored.removed


def test_keys_twice_in_one_offer_and_in_one_load(make):
    calls = make(4)
    keys = calls.keys("a", 2)
    taken, _ = calls.offer("a", [*keys, *keys])
    assert taken == keys
    calls.stored("a", keys)
    assert calls.load("b", [*keys, *keys]) == [0, 1, 0, 1]
    calls.loaded("b", keys)
    assert calls.num_pinned == 0


def test_transfers_may_end_after_their_request(make):
    hit, _, _ = answers()
    calls = make(6)
    a, b = calls.keys("a", 2), calls.keys("b", 2)
    calls.store("first", a)
    calls.load("r", a)
    context = calls.context("r")
    calls.finish("r")
    # vLLM 0.26 makes a last store after the end.
    output = calls.manager.prepare_store(b, context)
    assert output.keys_to_store == b
    calls.manager.complete_load(set(a), context)
    calls.manager.complete_store(set(b), context)
    assert calls.lookup("x", a + b) == [hit] * 4
    assert calls.num_pinned == 0
    calls.finish("x")
    calls.finish("first")
    assert calls.manager.num_requests == 0


def test_requests_are_found_by_id_too(make):
    """Should vLLM ever make a context for each call."""
    hit, _, _ = answers()
    calls = make(4)
    keys = calls.keys("a", 2)
    for step in ("offer", "stored"):
        calls.contexts.clear()
        if step == "offer":
            assert calls.offer("a", keys) == (keys, [])
            context = calls.context("a")
        else:
            calls.contexts["a"] = type(context)(req_id="a")
            calls.stored("a", keys)
    assert calls.lookup("b", keys) == [hit, hit]


def test_a_policy_hears_of_each_key_once(make):
    """However often it is touched, offered and looked up."""
    calls = make(6)
    heard = []
    observe = calls.driver.observe
    calls.driver.observe = lambda request, keys: (
        heard.extend(keys.keys),
        observe(request, keys),
    )
    keys = calls.keys("a", 5)
    for _ in range(3):
        calls.manager.touch(keys[:3], calls.context("a"))
        calls.lookup("a", keys[:1])
    calls.store("a", keys[:4])
    calls.manager.touch(keys, calls.context("a"))
    calls.store("a", keys[4:])
    calls.finish("a")
    assert heard == keys


class Player:
    """Makes random calls, right and wrong ones, and knows what must be held."""

    def __init__(self, calls, draw):
        self.calls, self.draw = calls, draw
        self.reading, self.writing = [], []

    def look_up(self, name, keys):
        self.calls.lookup(name, keys)

    def load(self, name, keys):
        hit, _, _ = answers()
        found = self.calls.lookup(name, keys)
        run = next((i for i, f in enumerate(found) if f is not hit), len(found))
        if run:
            self.calls.load(name, keys[:run])
            self.reading.append((self.calls.contexts[name], keys[:run]))

    def offer(self, name, keys):
        offered = self.calls.offer(name, keys)
        if offered and offered[0]:
            self.writing.append((self.calls.contexts[name], offered[0]))

    def loaded(self, name=None, keys=None):
        if self.reading:
            context, keys = self.reading.pop(self.draw.randrange(len(self.reading)))
            self.calls.manager.complete_load(set(keys), context)

    def stored(self, name=None, keys=None, share=0.8):
        if self.writing:
            context, keys = self.writing.pop(self.draw.randrange(len(self.writing)))
            success = self.draw.random() < share
            self.calls.manager.complete_store(set(keys), context, success)

    def finish(self, name, keys):
        if name in self.calls.contexts:
            self.calls.finish(name)

    def end_step(self, name, keys):
        self.calls.step()

    def report_nothing(self, name, keys):
        self.calls.stored(name, self.calls.keys("nothing", 2))
        self.calls.loaded(name, self.calls.keys("nothing", 2))

    def reset(self, name, keys):
        if self.draw.random() < 0.1:
            self.calls.manager.reset_cache()
            self.reading.clear()
            self.writing.clear()

    def num_held(self):
        """Chunks that are being read or written."""
        return len({key for _, keys in self.reading + self.writing for key in keys})

    def turn(self):
        what = self.draw.choice(
            (
                self.look_up,
                self.load,
                self.load,
                self.offer,
                self.offer,
                self.loaded,
                self.stored,
                self.finish,
                self.end_step,
                self.report_nothing,
                self.reset,
            )
        )
        keys = self.calls.keys(self.draw.choice("abcde"), self.draw.randrange(1, 6))
        what(f"r{self.draw.randrange(12)}", keys)

    def end(self):
        while self.reading or self.writing:
            self.loaded()
            self.stored()
        for name in list(self.calls.contexts):
            self.calls.finish(name)


@pytest.mark.parametrize("policy", ["lru", "marconi:reuse=log", "relevance"])
def test_any_order_of_calls(make, policy):
    """Accounts balance after every call, and nothing is left at the end."""
    calls = make(8, policy, enable_events=True)
    player = Player(calls, random.Random(policy))
    most = 0
    for number in range(1500):
        player.turn()
        most = max(most, player.num_held())
        assert calls.num_pinned == player.num_held(), number
    assert most == 8
    player.end()
    assert calls.num_pinned == 0
    assert calls.manager.num_requests == 0
    assert calls.manager.num_faults == 0
