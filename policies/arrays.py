"""Names for the array types in kernels' signatures.

The element type is in the name only: to a type checker an element read from any of them
is of any type, since kernels mix numpy's scalars and Python's.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from numpy.typing import NDArray

Int32Array: TypeAlias = NDArray[Any]
Int64Array: TypeAlias = NDArray[Any]
Float64Array: TypeAlias = NDArray[Any]
KeyArray: TypeAlias = NDArray[Any]  # int32 or int64: block ids, folded hashes
