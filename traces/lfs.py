"""Git LFS pointers: small files that stand where the data should."""

LFS_MAGIC = b"version https://git-lfs.github.com/spec/v1"


def lfs_message(path: str, pointer: bytes) -> str:
    """Message about a Git LFS pointer in place of the data, with the way out.

    Parameters
    ----------
    path : str
        Where it was found.
    pointer : bytes
        Its text.

    Returns
    -------
    str
        One line.
    """
    fields = dict(
        line.split(" ", 1)
        for line in pointer.decode("utf-8", "replace").splitlines()
        if " " in line
    )
    return (
        f"{path}: a Git LFS pointer, not the data (oid {fields.get('oid', 'unknown')}, "
        f"size {fields.get('size', 'unknown')} bytes): run 'git lfs pull', or download "
        "https://media.githubusercontent.com/media/OWNER/REPOSITORY/BRANCH/PATH"
    )
