"""One page of several results: verdicts first, then pictures, tables and origins."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from hotset.policies.errors import PolicyError
from hotset.sim import page_parts as parts
from hotset.sim.page_kinds import ODD, read
from hotset.sim.page_said import Drawing, Said

Found = tuple[Path, str, Said]

_MOST_BYTES = 256 << 20


def make_page(files: Sequence[Path], title: str) -> str:
    """Return the page of results, the same for the same files.

    Raises
    ------
    PolicyError
        If a file cannot be read or is no result.
    """
    found = [_read(path) for path in files]
    said = [each for _, _, each in found]
    every = [parts.heading("Verdict")]
    every += [parts.paragraph(v, "verdict") for each in said for v in each.verdicts]
    every += [
        parts.paragraph(f"{path.name}: {warning}", "warning")
        for path, _, each in found
        for warning in each.warnings
    ]
    pictures = _Pictures()
    sections: dict[str, tuple[list[str], list[str]]] = {
        "Curves": (pictures.of(found, "curves"), []),
        "Tables": ([], [table for each in said for table in each.tables]),
        "Maps": (pictures.of(found, "maps"), []),
        "Hits by tier over time": (pictures.of(found, "tiers"), []),
        "Sizes and costs": (
            pictures.of(found, "budgets"),
            [table for each in said for table in each.sizes],
        ),
    }
    for name, (drawn, tables) in sections.items():
        if drawn or tables:
            every += [parts.heading(name), *drawn, *tables]
    every.append(_origins(found))
    return parts.page(title, every)


def _read(path: Path) -> Found:
    try:
        with path.open("rb") as file:
            raw = file.read(_MOST_BYTES + 1)
        if len(raw) > _MOST_BYTES:
            raise PolicyError(f"{path}: above {_MOST_BYTES:,} bytes")
        values = json.loads(raw, parse_constant=_refuse)
    except OSError as error:
        raise PolicyError(f"{path}: {error.strerror or error}") from None
    except PolicyError:
        raise
    except (ValueError, RecursionError):
        raise PolicyError(f"{path}: not JSON") from None
    return path, hashlib.sha256(raw).hexdigest(), read(values, str(path))


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


class _Pictures:
    """Draws pictures one after the other; names inside are told apart by a number."""

    def __init__(self) -> None:
        self._count = 0

    def of(self, found: Sequence[Found], which: str) -> list[str]:
        """Return the pictures of that kind of all results.

        Raises
        ------
        PolicyError
            If a result's values do not go together.
        """
        return [
            self._one(drawing, path)
            for path, _, said in found
            for drawing in getattr(said, which)
        ]

    def _one(self, drawing: Drawing, path: Path) -> str:
        from hotset.sim.plots import svg_text

        draw, title, description = drawing
        self._count += 1
        try:
            svg = svg_text(draw)
        except ODD:
            raise PolicyError(
                f"{path}: its values do not go together: no picture of {title}"
            ) from None
        return parts.picture(svg, self._count, title, description)


def _origins(found: Sequence[Found]) -> str:
    """Return where everything comes from."""
    command = " ".join(["hotset report", *(path.name for path, _, _ in found)])
    rows = [("hotset", version("hotset")), ("command", command)]
    whole = [parts.heading("Where this comes from")]
    whole.append(parts.table("This page", ["what", "value"], rows, True))
    for path, digest, said in found:
        rows = [("result of", f"hotset {said.kind}")]
        rows += [
            ("version" if name == "hotset" else name, value or "the file does not say")
            for name, value in said.made_by
        ]
        rows.append(("SHA-256 of the file", digest))
        digests: dict[str, list[str]] = {}
        for name, of_trace in said.traces:
            digests.setdefault(name, []).append(of_trace)
        rows += [(f"SHA-256 of {name}", ", ".join(of)) for name, of in digests.items()]
        rows += said.shown_settings
        whole.append(parts.table(path.name, ["what", "value"], rows, True))
    return "".join(whole)
