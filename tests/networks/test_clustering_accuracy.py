import numpy as np
import pytest
from sklearn.metrics import accuracy_score

import dpgm
from dpgm.errors import UsageError


def test_names_of_clusters_do_not_matter():
    labels = np.array([3, 3, 5, 5, 9])
    assert dpgm.clustering_accuracy(labels, np.array([9, 9, 3, 3, 5])) == 1.0


def test_the_matching_is_one_to_one():
    assert dpgm.clustering_accuracy([0, 0, 1, 1], [7, 7, 7, 7]) == 0.5
    assert dpgm.clustering_accuracy([0, 0, 0, 0], [1, 2, 3, 3]) == 0.5


def test_the_best_matching_is_found_among_all_of_them():
    from itertools import permutations

    rng = np.random.default_rng(0)
    labels, clusters = rng.integers(0, 4, 200), rng.integers(0, 4, 200)
    best = max(accuracy_score(labels, np.array(order)[clusters]) for order in permutations(range(4)))
    assert dpgm.clustering_accuracy(labels, clusters) == pytest.approx(best)


@pytest.mark.parametrize(("labels", "clusters"), [([], []), ([1, 2], [1]), ([[1], [2]], [[1], [2]])])
def test_unequal_or_empty_lists_are_refused(labels, clusters):
    with pytest.raises(UsageError):
        dpgm.clustering_accuracy(labels, clusters)
