"""Machine code from a damaged file is never run."""

import os
import subprocess
import sys

CODE = (
    "from hotset.policies.heap import heap_set, make_heap\n"
    "heap = make_heap(4)\n"
    "for slot in range(4): heap_set(heap, slot, float(-slot), 0)\n"
    "print(heap.order.tolist(), sum(heap_set.stats.cache_hits.values()))"
)


def run(folder):
    shown = subprocess.run(
        [sys.executable, "-c", CODE],
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    return shown.stdout.strip()


def test_damaged_entries_are_compiled_anew(tmp_path):
    first = run(tmp_path)
    assert first.endswith(" 0")
    assert run(tmp_path) == first[:-1] + "1"
    entries = sorted(tmp_path.rglob("*.nbc"))
    assert entries
    for at in (0, 40, -1):
        for entry in entries:
            content = bytearray(entry.read_bytes())
            content[at] ^= 0x40
            entry.write_bytes(content)
        assert run(tmp_path) == first, f"byte {at}"
    for entry in entries:
        entry.write_bytes(entry.read_bytes()[:-9])
    assert run(tmp_path) == first
