"""Parts of a page: everything that comes from outside is escaped here.

A part is HTML as text. Only these functions make it; they take plain values.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from typing import Any

_NAMED = re.compile(r'(\bid="|url\(#|href="#)')
_HEAD = re.compile(r"^.*?(?=<svg)", re.DOTALL)
_WIDTH = re.compile(r'viewBox="0 0 ([0-9.]+) ')
# Pixels of a picture's point: letters are 8 points and more.
_LEAST, _LARGEST = 0.95, 1.8
_SIZE = re.compile(r'(<svg[^>]*?) (?:width|height)="[^"]*"')

_STYLE = """
:root{color-scheme:light}
body{font:16px/1.5 system-ui,sans-serif;color:#1a1a1a;background:#fff;margin:0 auto;
padding:1rem;max-width:62rem;overflow-wrap:anywhere}
h1{font-size:1.5rem}h2{font-size:1.2rem;margin-top:2rem;border-bottom:1px solid #888}
.verdict{font-size:1.1rem;border-left:.4rem solid #0072b2;padding:.3rem .8rem;
background:#eef5fa}
.warning{border-left:.4rem solid #d55e00;padding:.2rem .8rem;background:#fdf1e7}
.scroll{overflow-x:auto;max-width:100%;margin:.8rem 0}
table{border-collapse:collapse;font-size:.9rem}
caption{text-align:left;color:#444;white-space:nowrap}
th,td{padding:.2rem .6rem;text-align:right;white-space:nowrap;
border-bottom:1px solid #ccc}
th:first-child,td:first-child{text-align:left}
.words td,.words th{white-space:normal;text-align:left;min-width:6rem;
overflow-wrap:anywhere}
figure{margin:1rem 0}figcaption{color:#444;font-size:.9rem}
svg{width:100%;height:auto}
@media print{body{max-width:none;padding:0}.scroll{overflow:visible}
svg{min-width:0!important;max-height:22cm}h2{break-after:avoid}
figure,table{break-inside:avoid}table{font-size:.7rem}}
"""
_NO_SIGN = "\N{REPLACEMENT CHARACTER}"
# Nothing is fetched and nothing runs, whatever a string holds.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def text(value: Any) -> str:
    """Return a value as text that is no markup."""
    shown = value if isinstance(value, str) else str(value)
    return html.escape(_printable(shown))


def _printable(shown: str) -> str:
    """Replace bytes of a file's name that are no text, and signs that do things."""
    shown = shown.encode("utf-8", "replace").decode()
    return "".join(c if c.isprintable() or c in "\n\t" else _NO_SIGN for c in shown)


def heading(title: str) -> str:
    """Return a heading of a section."""
    return f"<h2>{text(title)}</h2>\n"


def paragraph(line: str, kind: str = "") -> str:
    """Return a line, as "verdict" or "warning" where a kind is given."""
    return f'<p class="{text(kind)}">{text(line)}</p>\n'


def table(
    caption: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    is_of_words: bool = False,
) -> str:
    """Return a table that scrolls where it is wider than the page.

    One of words breaks its lines instead.
    """
    kind = ' class="words"' if is_of_words else ""
    head = "".join(f'<th scope="col">{text(name)}</th>' for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{text(value)}</td>" for value in row) + "</tr>\n"
        for row in rows
    )
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{text(caption)}">'
        f"<table{kind}><caption>{text(caption)}</caption><thead><tr>{head}</tr></thead>\n"
        f"<tbody>\n{body}</tbody></table></div>\n"
    )


def picture(svg: str, number: int, title: str, description: str) -> str:
    """Return an SVG within the page, with a description, at any width.

    Parameters
    ----------
    svg : str
        As `hotset.sim.plots.svg_text` writes it.
    number : int
        Tells the names inside from those of other pictures.
    title, description : str
        What it is, and what it shows.
    """
    inner = _NAMED.sub(rf"\g<1>p{number}-", _HEAD.sub("", _printable(svg)))
    inner = _SIZE.sub(r"\1", _SIZE.sub(r"\1", inner))
    names = f"t{number} d{number}"
    width = _WIDTH.search(inner)
    points = float(width[1]) if width else 0.0
    # Letters keep a size that can be read: what is wider than the screen scrolls.
    size = f"min-width:{points * _LEAST:.0f}px;max-width:{points * _LARGEST:.0f}px"
    start, end = inner.split(">", 1)
    said = f'<title id="t{number}">{text(title)}</title>'
    said += f'<desc id="d{number}">{text(description)}</desc>'
    return (
        f'<figure><div class="scroll" role="region" tabindex="0" '
        f'aria-label="{text(title)}">{start} style="{size}" role="img" '
        f'aria-labelledby="{names}">'
        f"{said}{end}</div>\n<figcaption><strong>{text(title)}.</strong> "
        f"{text(description)}</figcaption></figure>\n"
    )


def page(title: str, parts: Iterable[str]) -> str:
    """Return a whole page that needs nothing else."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<main>\n<h1>{text(title)}</h1>\n{''.join(parts)}</main>\n</body>\n</html>\n"
    )
