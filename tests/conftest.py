import os
from pathlib import Path

import pytest
from hypothesis import settings

# Tests read files, not what an earlier run made of them; test_cache.py is about that.
os.environ["HOTSET_TRACE_CACHE"] = "off"

# Kernels compile on first use, which no deadline allows for.
settings.register_profile("hotset", deadline=None)
settings.load_profile("hotset")


@pytest.fixture(scope="session")
def public_traces() -> Path:
    beside = Path(__file__).resolve().parents[1].parent / "shared" / "traces"
    folder = Path(os.environ.get("HOTSET_TRACES", beside))
    if not folder.is_dir():
        pytest.skip(f"no public traces at {folder} (HOTSET_TRACES names another)")
    return folder
