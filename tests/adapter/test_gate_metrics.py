"""The fidelity gate's reading of a server's metrics."""

import pytest

from hotset.adapter.gate_errors import GateUnprovenError
from hotset.adapter.gate_metrics import RESTORED, restored_tokens


@pytest.mark.parametrize(
    ("page", "tokens"),
    [
        ("", None),
        ("# HELP NAME of tokens\n# TYPE NAME counter\n", None),
        ('NAME_more 5\nother 3\nx{a="NAME 4"} 1\n', None),
        ("NAME 5", 5),
        ("  NAME\t5e3\r\n", 5000),
        ("NAME{} 0\n", 0),
        ('NAME{engine="0"} 5.0 1700000000000\nNAME{engine="1"} 6\n', 11),
        ('NAME{engine="0",} 5 # {trace="}"} 1 2\n', 5),
        ('NAME{model_name="a}b",engine="0"} 5\n', 5),
        (r'NAME{ model_name = "a\"} 9" , engine="0" }5', 5),
        (r'NAME{model_name="C:\\"} 5', 5),
        ('NAME{model_name="a\u2028b\x0bc"} 5\n', 5),
    ],
)
def test_the_counter_is_found_whatever_its_labels_hold(page, tokens):
    assert restored_tokens(page.replace("NAME", RESTORED)) == tokens


@pytest.mark.parametrize(
    "sample",
    ["", "{", '{a="b} 5', "{a=b} 5", '{a="b"}', '{a="b" c="d"} 5']
    + [f" {value}" for value in ("NaN", "+Inf", "-1", "0.5", "1e300", "many")],
)
def test_a_count_that_is_none_is_no_count(sample):
    with pytest.raises(GateUnprovenError):
        restored_tokens(f"other 1\n{RESTORED} 5\n{RESTORED}{sample}\n")
