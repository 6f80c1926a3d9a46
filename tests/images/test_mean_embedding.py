"""Mean features of images: vectors of norm 1, exact sums, and the kernel that they approximate."""

import numpy as np
import pytest
import torch

from dpgm.data.domain import Categorical, Domain, Image, ItemSet
from dpgm.data.kinds.image import level_bits
from dpgm.data.records import Records
from dpgm.errors import UsageError
from dpgm.images.features import EmbeddingDesign, FeatureSet, ImageFeatures, ImageLayout
from dpgm.images.measurement import EMBEDDING_GRID, ClassSizes, MeanEmbedding
from dpgm.mechanisms.query import View

LABEL = Categorical("label", ("a", "b", "c"))
DOMAIN = Domain((LABEL, Image("image", 12, 10)), label="label")
GREY = Domain((LABEL, Image("image", 12, 10, 4)), label="label")
DESIGN = EmbeddingDesign(12, 10, (FeatureSet("dct", 0.03, 70, 0.75), FeatureSet("gabor", 0.1, 30, 0.25)))


def pictures(count: int, domain: Domain = DOMAIN) -> Records:
    """Random images of different brightness with random labels."""
    rng = np.random.default_rng(0)
    labels = np.eye(3, dtype=bool)[rng.integers(0, 3, count)]
    image = ImageLayout.of(domain).image
    levels = rng.binomial(image.levels - 1, rng.random((count, 1)), (count, 120))
    return Records.from_dense(np.c_[labels, level_bits(levels, image)], domain)


@pytest.mark.parametrize(
    ("domain", "extremes"),
    [
        (DOMAIN, [[0], [0, *range(3, 123)], [1, 3, 4, 5]]),
        # grey levels of all pixels, of none, and sets of positions that are no grey level
        (GREY, [[0], [0, *range(3, 363)], [1, *range(243, 363)], [2, 3, 124]]),
    ],
    ids=["binary", "grey"],
)
def test_every_record_has_a_vector_of_norm_one_and_never_longer_on_the_grid(
    domain: Domain, extremes: list[list[int]]
) -> None:
    query = MeanEmbedding(ImageLayout.of(domain), DESIGN).query()
    for records in (pictures(40, domain), Records.from_lists(extremes, domain)):
        for row in range(len(records)):
            units = query.compute(View(records.rows(row, row + 1)))
            assert units.dtype == torch.int64
            norm = float((units.double() * EMBEDDING_GRID).norm())
            assert 1 - 1e-4 < norm <= 1.0


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("domain", [DOMAIN, GREY], ids=["binary", "grey"])
def test_one_record_more_adds_exactly_its_own_vector_to_its_own_class(domain: Domain, device: str) -> None:
    layout = ImageLayout.of(domain)
    sums, sizes = MeanEmbedding(layout, DESIGN, device).query(), ClassSizes(layout).query()
    records = pictures(700, domain)
    all_sums, all_sizes = sums.compute(View(records)), sizes.compute(View(records))
    for row in (0, 511, 512, 699):
        others = View(records.take(np.delete(np.arange(700), row)))
        single = View(records.rows(row, row + 1))
        assert torch.equal(all_sums - sums.compute(others), sums.compute(single))
        assert torch.equal(all_sizes - sizes.compute(others), sizes.compute(single))
        assert int((sums.compute(single).abs().sum(1) > 0).sum()) == 1
        assert int(sizes.compute(single).sum()) == 1


def test_a_record_without_label_or_with_two_counts_at_most_once() -> None:
    layout = ImageLayout.of(DOMAIN)
    odd = Records.from_lists([[3, 4], [0, 2, 5], []], DOMAIN)
    assert ClassSizes(layout).query().compute(View(odd)).tolist() == [1, 0, 0]
    sums = MeanEmbedding(layout, DESIGN).query().compute(View(odd)).double() * EMBEDDING_GRID
    assert (sums.norm(dim=1) > 0.9).tolist() == [True, False, False]
    assert float(sums.norm()) <= 1.0


def test_inner_products_approximate_the_gaussian_kernel() -> None:
    design = EmbeddingDesign(12, 10, (FeatureSet("dct", 0.05, 20_000, 1.0),))
    features = ImageFeatures(design)
    images = torch.from_numpy(ImageLayout.of(DOMAIN).pixels_of(pictures(8)))
    transformed = features._transforms["dct"](images)
    bandwidth = 0.05 * 784 / 120
    kernel = torch.exp(-bandwidth * torch.cdist(transformed, transformed).square())
    vectors = features(images)
    assert torch.allclose(vectors @ vectors.T, kernel, atol=0.03)


def test_parts_of_the_frequencies_are_the_stated_columns_of_the_whole() -> None:
    features = ImageFeatures(DESIGN)
    images = torch.rand(5, 120, generator=torch.Generator().manual_seed(0))
    seen = []
    for number in range(4):
        part = slice(number, None, 4)
        columns = features.columns_of(part)
        assert torch.allclose(features(images, part), features(images)[:, columns], atol=1e-6)
        seen += columns.tolist()
    assert sorted(seen) == list(range(DESIGN.features))


def test_the_map_is_public_and_the_same_everywhere() -> None:
    images = torch.ones(1, 120)
    assert torch.equal(ImageFeatures(DESIGN)(images), ImageFeatures(DESIGN)(images))


def test_shares_above_one_are_refused() -> None:
    with pytest.raises(UsageError, match="add up to at most 1"):
        EmbeddingDesign(4, 4, (FeatureSet("dct", 0.1, 5, 0.7), FeatureSet("dct", 0.2, 5, 0.7)))


@pytest.mark.parametrize(
    "domain",
    [
        Domain.of_items(4),
        Domain((Image("a", 2, 2), Image("b", 2, 2))),
        Domain((Image("a", 2, 2), ItemSet("tags", (1, 2)))),
        Domain((Image("a", 2, 2), Categorical("label", (1, 2)))),
    ],
)
def test_other_domains_are_refused_in_plain_words(domain: Domain) -> None:
    with pytest.raises(UsageError, match="image"):
        ImageLayout.of(domain)
