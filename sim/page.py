"""One page of several results: verdicts first, then pictures, tables and origins."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from hotset.policies.errors import PolicyError
from hotset.sim import page_parts as parts
from hotset.sim.page_kinds import Drawing, Said, read, settings_rows

_MOST_BYTES = 256 << 20


def make_page(files: Sequence[Path], title: str) -> str:
    """Return the page of results, the same for the same files.

    Raises
    ------
    PolicyError
        If a file cannot be read or is no result.
    """
    found: list[tuple[Path, str, Said]] = []
    for path in files:
        try:
            if path.stat().st_size > _MOST_BYTES:
                raise PolicyError(f"{path}: above {_MOST_BYTES:,} bytes")
            raw = path.read_bytes()
            values = json.loads(raw)
        except OSError as error:
            raise PolicyError(f"{path}: {error.strerror or error}") from None
        except (ValueError, RecursionError):
            raise PolicyError(f"{path}: not JSON") from None
        digest = hashlib.sha256(raw).hexdigest()
        found.append((path, digest, read(values, str(path))))
    said = [each for _, _, each in found]
    every = [parts.heading("Verdict")]
    every += [parts.paragraph(v, "verdict") for each in said for v in each.verdicts]
    every += [parts.paragraph(w, "warning") for each in said for w in each.warnings]
    count = 0
    sections: dict[str, list[tuple[list[Drawing], list[str]]]] = {
        "Curves": [(each.curves, []) for each in said],
        "Tables": [([], each.tables) for each in said],
        "Maps": [(each.maps, []) for each in said],
        "Hits by tier over time": [(each.tiers, []) for each in said],
        "Sizes and costs": [([], each.sizes) for each in said],
    }
    for name, content in sections.items():
        drawings = [d for some, _ in content for d in some]
        tables = [t for _, some in content for t in some]
        if drawings or tables:
            every.append(parts.heading(name))
        for drawing in drawings:
            count += 1
            every.append(_picture(drawing, count))
        every += tables
    every.append(_origins(found))
    return parts.page(title, every)


def _picture(drawing: Drawing, number: int) -> str:
    from hotset.sim.plots import svg_text

    draw, title, description = drawing
    return parts.picture(svg_text(draw), number, title, description)


def _origins(found: Sequence[tuple[Path, str, Said]]) -> str:
    """Return where everything comes from."""
    command = " ".join(["hotset report", *(path.name for path, _, _ in found)])
    rows = [("hotset", version("hotset")), ("command", command)]
    whole = [parts.heading("Where this comes from")]
    whole.append(parts.table("This page", ["what", "value"], rows))
    for path, digest, said in found:
        rows = [("result of", f"hotset {said.kind}"), ("SHA-256 of the file", digest)]
        for name, of_trace in said.traces:
            rows.append((f"SHA-256 of {name}", of_trace))
        rows += settings_rows(said.settings)
        whole.append(parts.table(path.name, ["what", "value"], rows))
    return "".join(whole)
