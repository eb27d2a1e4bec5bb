import pytest

from hotset.policies.errors import PolicyError
from hotset.sim.capacity import parse_capacity


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("1638", 1638),
        ("5%", 50),
        ("0.1%", 1),
        ("12.5 %", 125),
        ("1MiB", 1024),
        ("1.5KiB", 1),
        ("2MB", 1953),
        ("1gib", 1 << 20),
        ("64PiB", 1 << 46),
        ("4096B", 4),
        ("32.3%", 323),  # 32.3 / 100 * 1000 is below 323 in floats
        ("64.1%", 641),
        ("9" * 18, 10**18 - 1),
    ],
)
def test_forms(text, blocks):
    """1,000 distinct blocks of 4 tokens at 256 bytes: 1 KiB a block."""
    assert parse_capacity(text).blocks(1000, 4, 256) == blocks


@pytest.mark.parametrize(
    "text", ["", "x", "-5", "1e9", "5 %%", "1.5", "GiB", "inf", "9" * 19]
)
def test_no_capacity(text):
    with pytest.raises(PolicyError, match="allowed: blocks"):
        parse_capacity(text)


@pytest.mark.parametrize("text", ["0", "0%", "0.09%", "1023B"])
def test_less_than_a_block(text):
    with pytest.raises(PolicyError, match="at least 1 is needed"):
        parse_capacity(text).blocks(1000, 4, 256)


def test_bytes_need_a_size():
    with pytest.raises(PolicyError, match="--kv-bytes-per-token or --model"):
        parse_capacity("64GiB").blocks(1000, 4, None)
