"""Names of the kinds of numpy arrays that modules pass to each other."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]
Codes: TypeAlias = NDArray[np.int64]  # positions within a field, or labels by their number in a vocabulary
AnyArray: TypeAlias = NDArray[Any]
