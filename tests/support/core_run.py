"""Runs scenarios on the vLLM that is on the path, and writes what each showed.

``python -m support.core_run FILE NAME...``; without names, all of them.
"""

import json
import sys
import traceback
from pathlib import Path

from support import (
    core_checks,
    core_hybrid,
    core_scenarios,
    core_ssd,
    core_watching,
)

VERSION = core_scenarios.VERSION
SCENARIOS = core_scenarios.SCENARIOS
assert core_checks and core_hybrid and core_ssd and core_watching


def main():
    shown = {}
    for name in sys.argv[2:] or SCENARIOS:
        print(name, file=sys.stderr, flush=True)
        try:
            engines = SCENARIOS[name]()
            shown[name] = [core_scenarios.outcome(engine) for engine in engines]
        except Exception:
            shown[name] = traceback.format_exc()
    Path(sys.argv[1]).write_text(json.dumps({"version": VERSION, "shown": shown}))


if __name__ == "__main__":
    main()
