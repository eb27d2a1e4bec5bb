"""Queries of the dashboard, and what they ask for of a server's metrics."""

import json
import re
from pathlib import Path

DASHBOARD = Path(__file__).parents[2] / "docs" / "grafana_dashboard.json"

_SELECTOR = re.compile(r"(vllm:\w+)(?:\{([^}]*)\})?")
_LABEL = re.compile(r"(\w+)(?:=|!=|=~|!~)\"")
_BY = re.compile(r"\bby \(([^)]*)\)")
_SHOWN = re.compile(r"\{\{(\w+)\}\}")


def queries():
    """Expression and legend of every target."""
    dashboard = json.loads(DASHBOARD.read_text())
    return [
        (target["expr"], target["legendFormat"])
        for panel in dashboard["panels"]
        for target in panel["targets"]
    ]


def wanted():
    """Series names with the labels that queries use of them."""
    found = {}
    for expression, legend in queries():
        grouped = {
            label.strip()
            for labels in _BY.findall(expression)
            for label in labels.split(",")
        }
        for name, selector in _SELECTOR.findall(expression):
            labels = set(_LABEL.findall(selector)) | grouped
            found.setdefault(name, set()).update(labels | set(_SHOWN.findall(legend)))
    return found


def exposed(text):
    """Series names of a /metrics page; the labels of those that have samples."""
    suffixes = {
        "counter": ("",),
        "gauge": ("",),
        "histogram": ("_bucket", "_sum", "_count"),
    }
    names, labels = set(), {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            names |= {name + suffix for suffix in suffixes.get(kind, ("",))}
        elif not line.startswith("#") and "{" in line:
            name, _, rest = line.partition("{")
            labels.setdefault(name, set()).update(re.findall(r'(\w+)="', rest))
    return names, labels


def absent(text):
    """What queries ask for and a /metrics page has not: series, and labels of some."""
    names, labels = exposed(text)
    return [
        (name, sorted(asked - labels.get(name, asked)))
        for name, asked in wanted().items()
        if name not in names or not asked <= labels.get(name, asked)
    ]
