import numpy as np

from dpgm.products.model import evened


def possible_records(items, seed):
    draws = np.random.default_rng(seed)
    held = (np.arange(1 << items)[:, None] >> np.arange(items)) & 1 == 1
    shares = draws.gamma(0.3, size=len(held))
    return held, shares / shares.sum()


def counts(held, sizes):
    return (held * sizes[:, None]).T @ held


def test_items_and_pairs_come_nearer_to_what_they_should_be():
    held, shares = possible_records(12, 0)
    expected = 3_000 * shares
    random = np.random.default_rng(1)
    start = np.diff(np.floor(np.cumsum(expected) + 0.5).astype(np.int64), prepend=0)
    sizes = evened(expected, start, held, random)
    assert sizes.sum() == start.sum()
    assert np.abs(sizes - expected).max() < 1
    wanted = counts(held, expected)
    before, after = (np.abs(counts(held, some) - wanted).mean() for some in (start, sizes))
    assert after < 0.25 * before


def test_nothing_to_round_stays():
    held, _ = possible_records(3, 0)
    whole = np.arange(8)
    assert np.array_equal(evened(whole.astype(float), whole, held, np.random.default_rng(0)), whole)
    one_side = np.full(8, 0.25)
    assert np.array_equal(
        evened(one_side, np.zeros(8, dtype=np.int64), held, np.random.default_rng(0)), np.zeros(8)
    )
