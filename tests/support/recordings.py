"""Requests as a server's recorder gets them, and what it made of them."""

import hashlib

from hotset.adapter.recorder import Ended, RecordConfig, Recorder
from hotset.adapter.tags import Tags

BLOCK = 32


def ended(prompt, tokens, output=4, at=0.0, **more):
    """A request of a prompt, whose blocks are named by it and their place."""
    full = (tokens + output) // BLOCK
    hashes = [hashlib.sha256(f"{prompt}:{i}".encode()).digest() for i in range(full)]
    tags = Tags(**{k: v for k, v in more.items() if k not in ("loaded", "stored")})
    tier = (more.get("loaded", 0), more.get("stored", 0))
    return Ended(at, tokens, output, hashes, tags, *tier)


def record(path, requests, **config):
    """Record requests and close; return the recorder."""
    recorder = Recorder(RecordConfig(str(path), **config), BLOCK)
    for request in requests:
        recorder.note(request)
    recorder.close()
    return recorder


def nothing_but(recorder, **counts):
    assert {k: v for k, v in recorder.counts.items() if v} == counts
