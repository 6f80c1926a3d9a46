"""Unsupervised clustering accuracy: the best one-to-one matching of clusters to labels."""

import numpy as np
from numpy.typing import ArrayLike

from dpgm.errors import UsageError


def clustering_accuracy(labels: ArrayLike, clusters: ArrayLike) -> float:
    """The share of records whose cluster is matched to their label, under the best one-to-one matching.

    Computed on true labels, hence not private.

    >>> clustering_accuracy([0, 0, 1, 1, 2], [1, 1, 0, 0, 0])
    0.8

    Args:
        labels: (N,) true label of every record.
        clusters: (N,) cluster of every record; may have more or fewer values than labels.
    """
    from scipy.optimize import linear_sum_assignment

    label_names, label_numbers = np.unique(np.asarray(labels), return_inverse=True)
    cluster_names, cluster_numbers = np.unique(np.asarray(clusters), return_inverse=True)
    if label_numbers.shape != cluster_numbers.shape or label_numbers.ndim != 1:
        raise UsageError("`labels` and `clusters` must be lists of equal length, one entry per record.")
    if len(label_numbers) == 0:
        raise UsageError("there are no records to match; `labels` is empty.")
    table = np.zeros((len(cluster_names), len(label_names)), dtype=np.int64)
    np.add.at(table, (cluster_numbers, label_numbers), 1)
    matched = linear_sum_assignment(table, maximize=True)
    return float(table[matched].sum() / len(label_numbers))
