import importlib

import pytest

traces = importlib.import_module("hotset.traces")


@pytest.mark.parametrize("name", traces.__all__)
def test_public_names_are_what_their_modules_hold(name):
    value = getattr(traces, name)
    assert value is getattr(importlib.import_module(value.__module__), name)


def test_other_names_are_missing():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        traces.nothing  # noqa: B018 - the access is the test
