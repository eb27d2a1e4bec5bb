"""Serves prompts with one engine, in a process of its own.

Reads ``{"engine": {...}, "prompts": [...], "reset_after": n}`` from standard input and
writes outputs, cached tokens and counters to the file that is named.
"""

import json
import sys
import time
from pathlib import Path

from support.ssd_planting import SsdFaults
from support.vllm_engine import (
    counters,
    make_engine,
    manager_of,
    num_groups,
    serve,
    serve_users,
)


def replace_policy(llm, path, content, outcome, prompts):
    """Write a policy file, and serve until the engine says what it did with it."""

    def seen():
        return sum(
            metric.value
            for metric in llm.get_metrics()
            if metric.name == "vllm:hotset_policy_files"
            and metric.labels["outcome"] == outcome
        )

    before = seen()
    Path(path).write_text(content)
    for _ in range(1000):
        serve(llm, prompts)
        if seen() > before:
            return
        time.sleep(0.05)
    raise AssertionError(f"{path} was not {outcome}")


def main():
    job = json.load(sys.stdin)
    llm = make_engine(**job["engine"])
    if "users" in job:
        outputs, cached = serve_users(llm, job["prompts"], job["users"])
    else:
        before = None
        if "ssd_faults" in job:
            before = SsdFaults(manager_of(llm), job["ssd_faults"]).begin
        tags = job.get("tags", (None,))
        outputs, cached = serve(llm, job["prompts"], tags, before)
    answer = {"outputs": outputs, "cached": cached, "counters": counters(llm)}
    answer["groups"] = num_groups(llm)
    if job.get("files"):
        for path, content, outcome in job["files"]:
            replace_policy(llm, path, content, outcome, job["prompts"][:2])
        answer["after_files"] = serve(llm, job["prompts"])
        answer["counters_after"] = counters(llm)
    if job.get("metrics_text"):
        from prometheus_client import generate_latest

        answer["metrics_text"] = generate_latest().decode()
    if "support.stock_spec" in sys.modules:
        answer["policies"] = sys.modules["support.stock_spec"].described()
    if job.get("reset_then"):
        assert llm.reset_prefix_cache(reset_connector=True)
        answer["after_reset"] = serve(llm, job["reset_then"])
    Path(sys.argv[1]).write_text(json.dumps(answer))


if __name__ == "__main__":
    main()
