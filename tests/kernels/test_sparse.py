"""Sparse matrices times dense tensors: the same with MKL and without."""

import numpy as np
import pytest
import torch

from dpgm.data.rows import row_pointers
from dpgm.kernels import sparse
from dpgm.kernels.sparse import SparseMatrix


@pytest.mark.parametrize("mkl", [sparse.HAS_MKL, False])
@pytest.mark.parametrize("width", [0, 1, 7])
def test_products_are_those_of_the_dense_matrix(monkeypatch, mkl, width):
    monkeypatch.setattr(sparse, "HAS_MKL", mkl)
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(20, width)) * (rng.random((20, width)) < 0.3)
    rows, columns = np.nonzero(dense)
    matrix = SparseMatrix(row_pointers(np.bincount(rows, minlength=20)), columns, dense[rows, columns], width)
    for shape in ((width,), (width, 3)):
        other = torch.from_numpy(rng.normal(size=shape))
        assert torch.allclose(matrix @ other, torch.from_numpy(dense) @ other)
        assert torch.allclose(matrix.squared() @ other, torch.from_numpy(dense**2) @ other)
