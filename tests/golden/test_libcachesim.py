"""Hits of libCacheSim 0.3.5 on the public traces, every access by itself.

Equal as integers where both do what the paper says. Of the others the difference is
stated, and both figures are held.
"""

import json
from collections import OrderedDict

import pytest
from contract.replaying import run
from golden.scripts import FOLDER

from hotset.sim.flat import flatten
from hotset.sim.workload import Workload
from hotset.traces.registry import read_trace

pytestmark = pytest.mark.slow

EQUAL = {
    "LRU": "lru",
    "FIFO": "fifo",
    "Belady": "belady:bypass=false",
    "LFU": "lfu",
    "ARC": "arc",
    "Sieve": "sieve",
}
CELLS = [
    ("conversation", 1827),
    ("conversation", 18279),
    ("synthetic", 439),
    ("synthetic", 4392),
]
# libCacheSim's GDSF breaks ties another way.
GDSF = dict(zip(CELLS, [15875, 83136, 4107, 30160], strict=True))
GDSF_POINTS = 0.05
# libCacheSim's W-TinyLFU estimates counts in a sketch of its own size and ageing. Exact
# counts of 4 C keys hit as often or oftener, up to 3.6 points of the accesses here.
TINYLFU = dict(zip(CELLS, [22850, 58583, 4476, 25210], strict=True))
TINYLFU_POINTS = 3.6


@pytest.fixture(scope="module")
def theirs():
    """Their hits, by trace, capacity and algorithm."""
    rows = json.loads((FOLDER / "libcachesim.json").read_text())["rows"]
    return {(r["trace"], r["capacity_blocks"], r["algorithm"]): r["hits"] for r in rows}


@pytest.fixture(scope="module")
def workload_of(public_traces):
    """A function that returns the workload of a trace by its name."""
    known = {}

    def get(name):
        if name not in known:
            trace = read_trace(public_traces / f"mooncake_{name}.jsonl.gz")
            known[name] = Workload(flatten(trace, "count"), "count")
        return known[name]

    return get


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("algorithm", EQUAL)
def test_equal(algorithm, cell, theirs, workload_of):
    result = run(workload_of(cell[0]), EQUAL[algorithm], cell[1])
    assert result.hit_blocks == theirs[*cell, algorithm]


@pytest.mark.parametrize(
    ("algorithm", "text", "ours", "low", "high"),
    [
        ("GDSF", "gdsf", GDSF, -GDSF_POINTS, GDSF_POINTS),
        ("WTinyLFU", "tinylfu", TINYLFU, 0.0, TINYLFU_POINTS),
    ],
)
@pytest.mark.parametrize("cell", CELLS)
def test_near(algorithm, text, ours, low, high, cell, theirs, workload_of):
    result = run(workload_of(cell[0]), text, cell[1])
    assert result.hit_blocks == ours[cell]
    points = 100 * (ours[cell] - theirs[*cell, algorithm]) / result.accesses
    assert low <= points <= high


class FlatS3Fifo:
    """S3-FIFO in Python, one key at a time.

    With ``fills_main``, while the cache fills up, what does not fit into the small
    queue goes into the main one at once.
    """

    def __init__(self, capacity, fills_main):
        self.capacity, self.fills_main = capacity, fills_main
        self.most_small, self.most_ghosts = int(capacity * 0.1), int(capacity * 0.9)
        self.small, self.main, self.ghosts = OrderedDict(), OrderedDict(), OrderedDict()
        self.uses = {}

    def access(self, key):
        """Return whether a key was there; now it is."""
        if key in self.small or key in self.main:
            self.uses[key] = min(self.uses[key] + 1, 3)
            return True
        comes_back = self.ghosts.pop(key, 0) is None
        while len(self.small) + len(self.main) >= self.capacity:
            self.fills_main = False
            if len(self.small) >= self.most_small:
                self.shrink_small()
            else:
                self.shrink_main()
        skips = self.fills_main and len(self.small) >= self.most_small
        (self.main if comes_back or skips else self.small)[key] = None
        self.uses[key] = 0
        return False

    def shrink_small(self):
        while self.small:
            key, _ = self.small.popitem(last=False)
            if self.uses[key] < 2:
                self.ghosts[key] = None
                if len(self.ghosts) > self.most_ghosts:
                    self.ghosts.popitem(last=False)
                return
            self.uses[key] = 0
            self.main[key] = None

    def shrink_main(self):
        key, _ = self.main.popitem(last=False)
        if self.uses[key] > 0:
            self.uses[key] -= 1
            self.main[key] = None


def flat_hits(ids, capacity, fills_main):
    cache = FlatS3Fifo(capacity, fills_main)
    return sum(cache.access(key) for key in ids)


@pytest.mark.parametrize("cell", CELLS)
def test_s3fifo_differs_by_how_the_cache_fills(cell, theirs, workload_of):
    workload = workload_of(cell[0])
    ids = workload.blocks.ids.tolist()
    assert flat_hits(ids, cell[1], True) == theirs[*cell, "S3FIFO"]
    ours = run(workload, "s3fifo", cell[1]).hit_blocks
    assert flat_hits(ids, cell[1], False) == ours
