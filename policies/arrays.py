"""Names for the array types in kernels' signatures."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Int32Array: TypeAlias = NDArray[np.int32]
Int64Array: TypeAlias = NDArray[np.int64]
Float64Array: TypeAlias = NDArray[np.float64]
# The loop passes int32 or int64 block ids; kernels are compiled for either.
KeyArray: TypeAlias = NDArray[Any]
