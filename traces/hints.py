"""What a file of no known format may be, for whoever wonders why it is not read."""

_COMPRESSED = {
    b"\x1f\x8b": "gzip within gzip or zstd",
    b"\x28\xb5\x2f\xfd": "zstd within gzip or zstd",
    b"BZh": "bzip2",
    b"\xfd7zXZ\0": "xz",
    b"PK\x03\x04": "a zip archive",
    b"7z\xbc\xaf\x27\x1c": "7-Zip",
}
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


def is_packed(head: bytes) -> bool:
    """Whether a file is compressed in a way that is not read, whatever is in it.

    Parameters
    ----------
    head : bytes
        Its first decompressed bytes.

    Returns
    -------
    bool
        Told by the first of them.
    """
    return head.startswith(tuple(_COMPRESSED))


def hint(head: bytes) -> str | None:
    """Tell what a file looks like, and what to do about it.

    Parameters
    ----------
    head : bytes
        Its first decompressed bytes.

    Returns
    -------
    str or None
        None where it looks like nothing in particular.
    """
    for magic, name in _COMPRESSED.items():
        if head.startswith(magic):
            return f"compressed ({name}): unpack it; gzip and zstd are read as they are"
    if head.startswith(_UTF_16):
        return "text in UTF-16: convert it to UTF-8"
    text = head.removeprefix(b"\xef\xbb\xbf").strip()
    if not text.strip(b"\0"):
        return "nothing but zero bytes" if text else "nothing but blank lines"
    if text[:1] == b"<":
        return "a web page or XML, not data: look at it, it may say why"
    if text[:1] == b"[":
        return "a JSON array: one object a line is read (jq -c '.[]' makes them)"
    if text[:1] == b"{" and text.partition(b"\n")[0].strip() == b"{":
        return "JSON over several lines: one object a line is read (jq -c . makes it)"
    if b"," in text.partition(b"\n")[0] and text[:1] != b"{":
        return (
            "a table: --format csv reads it, with --columns, --time-unit and "
            "--block-tokens"
        )
    if text[:1] == b"{":
        return (
            "JSON of other fields: --format jsonl reads one object a line, with "
            "--columns, --time-unit and --block-tokens"
        )
    return None
