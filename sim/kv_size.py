"""KV cache bytes of a token, for capacities that are given in bytes.

A trace has one kind of block. So models whose layers differ (sliding windows, states)
are refused here: what such a layer finds is not what a full one finds.
"""

from __future__ import annotations

from pathlib import Path

from hotset.policies.errors import PolicyError
from hotset.sim.kv_layout import FULL, read_layout


def kv_bytes_per_token(path: Path) -> int:
    """Return the KV cache bytes of a token over all layers, kept once.

    Parameters
    ----------
    path : Path
        A ``config.json``.

    Raises
    ------
    PolicyError
        If the file cannot be read or its layout is not known.
    """
    layout = read_layout(path)
    kinds = [group.kind for group in layout.layers]
    if kinds != [FULL]:
        raise PolicyError(
            f"--model {path}: layers differ ({', '.join(kinds)}), so give "
            "--kv-bytes-per-token; hotset size has the sizes"
        )
    return layout.rank_bytes_per_token
