"""Sparse matrices (CSR) that are multiplied by dense tensors: by MKL where torch has it, else by sums of torch."""

import warnings

import numpy as np
import torch
from torch import Tensor

from dpgm.arrays import AnyArray, Ints

HAS_MKL: bool = torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]


class SparseMatrix:
    """A matrix of `len(indptr) - 1` rows; the entries of row i are at indptr[i] .. indptr[i + 1].

    >>> matrix = SparseMatrix(np.array([0, 2, 2, 3]), np.array([0, 2, 1]), np.array([1.0, 2.0, 3.0]), 3)
    >>> (matrix @ torch.tensor([1.0, 10.0, 100.0]).double()).tolist()
    [201.0, 0.0, 30.0]
    """

    def __init__(
        self, indptr: Ints, columns: Ints, values: AnyArray, width: int, dtype: torch.dtype = torch.float64
    ) -> None:
        self._shape = (len(indptr) - 1, width)
        self._pointers, self._columns = (torch.from_numpy(part.astype(np.int32)) for part in (indptr, columns))
        self._values = torch.from_numpy(values).to(dtype)

    def __matmul__(self, dense: Tensor) -> Tensor:
        if HAS_MKL:
            return self._with(self._values) @ dense
        products = dense[self._columns] * (self._values if dense.dim() == 1 else self._values[:, None])
        rows = torch.repeat_interleave(torch.arange(self._shape[0]), self._pointers.diff())
        return dense.new_zeros((self._shape[0], *dense.shape[1:])).index_add_(0, rows, products)

    def squared(self) -> "SparseMatrix":
        """The matrix of the squares of all entries."""
        other = object.__new__(SparseMatrix)
        other._shape, other._pointers, other._columns = self._shape, self._pointers, self._columns
        other._values = self._values**2
        return other

    def _with(self, values: Tensor) -> Tensor:
        return torch.sparse_csr_tensor(
            self._pointers, self._columns, values, size=self._shape, check_invariants=False
        )


with warnings.catch_warnings():  # the first one that is made warns that they are in beta state
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor(torch.tensor([0, 0]), torch.tensor([]).long(), torch.tensor([]), size=(1, 1))
