"""Images of more than two grey levels: their positions, files, generator and evaluation."""

import struct

import numpy as np
import pytest
import torch

from dpgm.data.domain import Categorical, Domain, Image
from dpgm.data.domain_file import domain_from_plain, domain_to_plain
from dpgm.data.inspection import inspect_file
from dpgm.data.kinds.image import level_bits, nearest_levels
from dpgm.data.read.readers import read_records
from dpgm.data.records import Records, grey_levels, grey_values, pixel_values
from dpgm.data.writers import write_records
from dpgm.errors import InputError, UsageError
from dpgm.evaluation.downstream import image_accuracy
from dpgm.evaluation.evaluate import evaluate
from dpgm.images.features import EmbeddingDesign, FeatureSet, ImageLayout
from dpgm.images.fitting import ImageFitSettings, fit_images
from dpgm.images.measurement import EMBEDDING_GRID, ClassSizes, ImageMeasurements, MeanEmbedding
from dpgm.images.model import ImageArchitecture, draw_levels
from dpgm.mechanisms.query import View
from dpgm.statistics.fourier_features import FourierFeatures

LEVELS = 4
IMAGE = Image("image", 12, 10, LEVELS)
DOMAIN = Domain((Categorical("label", ("a", "b", "c")), IMAGE), label="label")
ALONE = Domain((IMAGE,))


def test_levels_and_positions_are_each_others_inverse() -> None:
    rng = np.random.default_rng(0)
    levels = rng.integers(0, LEVELS, (30, 120))
    records = Records.from_dense(level_bits(levels, IMAGE), ALONE)
    assert records.width == IMAGE.width == 360
    assert np.array_equal(grey_levels(records, IMAGE), levels)
    assert np.allclose(grey_values(records, IMAGE).reshape(30, 120), levels / 3)
    assert np.array_equal(nearest_levels(pixel_values(records, IMAGE), IMAGE), levels)
    assert IMAGE.position_names[121] == "r0c1>1"


def test_two_levels_are_a_pixel_that_is_on_above_127() -> None:
    binary = Image("image", 2, 3)
    assert nearest_levels(np.array([0, 127, 128, 255]), binary).tolist() == [0, 0, 1, 1]
    assert binary.width == 6
    assert binary.position_names[4] == "r1c1"


@pytest.mark.parametrize("levels", [1, 257, 3.0, True])
def test_levels_out_of_range_are_refused(levels: object) -> None:
    with pytest.raises(UsageError, match="levels"):
        Image("image", 2, 2, levels)  # type: ignore[arg-type]


def test_the_domain_file_states_levels_beyond_two_only() -> None:
    plain = domain_to_plain(DOMAIN)
    assert plain["fields"][1]["levels"] == LEVELS
    assert domain_from_plain(plain) == DOMAIN
    assert "levels" not in domain_to_plain(Domain((Image("image", 2, 2),)))["fields"][0]


@pytest.mark.parametrize("name", ["x.idx", "x.idx.gz", "x.npy"])
def test_grey_images_come_back_from_their_files(tmp_path, name: str) -> None:
    rng = np.random.default_rng(1)
    records = Records.from_dense(level_bits(rng.integers(0, LEVELS, (20, 120)), IMAGE), ALONE)
    write_records(records, tmp_path / name)
    again = read_records(tmp_path / name, domain=ALONE)
    assert np.array_equal(again.to_dense(), records.to_dense())
    with pytest.raises(UsageError, match="threshold"):
        read_records(tmp_path / name, domain=ALONE, threshold=3)


def test_arrays_hold_bytes_or_values_of_0_to_1_and_nothing_else(tmp_path) -> None:
    values = np.random.default_rng(2).random((5, 12, 10))
    np.save(tmp_path / "floats.npy", values)
    read = read_records(tmp_path / "floats.npy", domain=ALONE)
    assert np.array_equal(grey_levels(read, IMAGE), np.rint(values.reshape(5, 120) * 3))
    for bad, dtype in ((np.nan, float), (1.5, float), (256, np.int64), (-1, np.int64)):
        wrong = np.zeros((5, 12, 10), dtype=dtype)
        wrong[3, 2, 1] = bad
        np.save(tmp_path / "wrong.npy", wrong)
        with pytest.raises(InputError, match="row 4: holds a grey value outside"):
            read_records(tmp_path / "wrong.npy", domain=ALONE)


SCAN = Domain((Image("scan", 8, 8, 5, white=16),))


@pytest.mark.parametrize(("dtype", "name"), [("uint8", "x.npy"), ("float64", "x.npy"), ("uint8", "x.idx")])
def test_the_domain_states_the_value_of_white_pixels_and_samples_have_it(tmp_path, dtype: str, name: str) -> None:
    values = np.random.default_rng(2).integers(0, 17, (20, 8, 8)).astype(dtype)
    if name == "x.npy":
        np.save(tmp_path / name, values)
    else:
        (tmp_path / name).write_bytes(struct.pack(">IIII", 0x0803, 20, 8, 8) + values.tobytes())
    read = read_records(tmp_path / name, domain=SCAN)
    levels = grey_levels(read, SCAN.item_set)
    assert np.abs(levels - values.reshape(20, 64) / 4).max() <= 0.5
    assert levels.max() == 4
    write_records(read, tmp_path / f"again-{name}")
    assert read_records(tmp_path / f"again-{name}", domain=SCAN) == read
    if name == "x.npy":
        assert np.array_equal(np.load(tmp_path / "again-x.npy").reshape(20, 64), levels * 4)
    assert domain_from_plain(domain_to_plain(SCAN)) == SCAN


def test_values_of_16_bits_are_read_and_written(tmp_path) -> None:
    domain = Domain((Image("scan", 2, 2, 3, white=4095),))
    np.save(tmp_path / "x.npy", np.array([[[0, 4095], [2000, 4000]]], dtype=np.int32))
    read = read_records(tmp_path / "x.npy", domain=domain)
    write_records(read, tmp_path / "y.npy")
    assert np.load(tmp_path / "y.npy").tolist() == [[[0, 4095], [2048, 4095]]]


@pytest.mark.parametrize(("levels", "white"), [(2, 16), (4, 0), (4, 70_000), (4, 1.5), (4, True)])
def test_white_is_a_whole_number_and_for_grey_images_only(levels: int, white: object) -> None:
    with pytest.raises(UsageError, match="white"):
        Image("scan", 2, 2, levels, white)  # type: ignore[arg-type]


def test_inspect_points_out_images_without_a_bright_pixel(tmp_path) -> None:
    values = np.random.default_rng(2).integers(0, 17, (20, 8, 8)).astype(np.uint8)
    np.save(tmp_path / "digits.npy", values)
    dark = Domain((Image("scan", 8, 8, 5),))
    (line,) = inspect_file(tmp_path / "digits.npy", domain=dark).dim_images
    assert "no pixel is brighter than level 0 of 0 to 4, where 255" in line
    assert "`white: 16`" in line
    assert line in inspect_file(tmp_path / "digits.npy", domain=dark).lines()
    assert inspect_file(tmp_path / "digits.npy", domain=SCAN).dim_images == ()
    with pytest.raises(InputError, match="255") as refused:
        inspect_file(tmp_path / "digits.npy")
    assert "white: 16" in str(refused.value)
    np.save(tmp_path / "wrong.npy", values + 1)
    with pytest.raises(InputError, match="outside 0 to 16; correct the file, or state the image's `white`"):
        read_records(tmp_path / "wrong.npy", domain=SCAN)


def test_pixels_of_one_grey_value_have_one_level_and_black_and_white_ones_are_coins() -> None:
    coins = torch.rand((200, 64), generator=torch.Generator().manual_seed(1))
    for value in (0.0, 0.1, 0.45, 0.9, 1.0):
        flat = torch.full((200, 64), value)
        assert set(draw_levels(flat, LEVELS, coins).flatten().tolist()) == {round(value * (LEVELS - 1))}
        assert torch.equal(draw_levels(flat, 2, coins).bool(), coins < value)


def grey_stripes(count: int, seed: int) -> Records:
    """Class a: a bright left half; class b: a middling right half."""
    domain = Domain((Image("image", 8, 8, LEVELS), Categorical("label", (0, 1))), label="label")
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, count)
    levels = np.zeros((count, 8, 8), dtype=np.int64)
    levels[labels == 0, :, :4] = 3
    levels[labels == 1, :, 4:] = 1
    image = ImageLayout.of(domain).image
    bits = level_bits(levels.reshape(count, 64), image)
    return Records.from_dense(np.c_[bits, np.eye(2, dtype=bool)[labels]], domain)


def test_a_fitted_generator_draws_the_grey_values_that_were_measured() -> None:
    records = grey_stripes(400, 0)
    layout = ImageLayout.of(records.domain)
    design = EmbeddingDesign(8, 8, (FeatureSet("dct", 0.004, 300, 1.0),))
    view = View(records)
    measured = ImageMeasurements(
        design,
        ClassSizes(layout).query().compute(view).double(),
        1.0,
        MeanEmbedding(layout, design).query().compute(view).double() * EMBEDDING_GRID,
    )
    generator = torch.Generator().manual_seed(0)
    fitted = fit_images(
        measured,
        records.domain,
        ImageFitSettings(ImageArchitecture("dct", 8, 8, 2, 4, (32, 48)), steps=300, images=20),
        generator=generator,
    )
    drawn = fitted.sample(300, generator=generator)
    values, labels = grey_values(drawn, layout.image), layout.classes_of(drawn)
    halves = values.reshape(-1, 8, 2, 4).mean(axis=(1, 3))
    assert np.abs(halves[labels == 0].mean(0) - [1, 0]).max() < 0.15
    assert np.abs(halves[labels == 1].mean(0) - [0, 1 / 3]).max() < 0.15


def test_evaluation_sees_grey_values() -> None:
    """The two classes below differ in the brightness of the same pixels alone."""
    domain = Domain((Image("image", 8, 8, LEVELS), Categorical("label", (0, 1))), label="label")
    image = ImageLayout.of(domain).image

    def records(seed: int) -> Records:
        rng = np.random.default_rng(seed)
        labels = rng.integers(0, 2, 400)
        levels = np.where(rng.random((400, 64)) < 0.5, np.where(labels, 3, 1)[:, None], 0)
        return Records.from_dense(np.c_[level_bits(levels, image), np.eye(2, dtype=bool)[labels]], domain)

    real, synthetic = records(0), records(1)
    assert image_accuracy(real, synthetic) > 0.95
    found = evaluate(real, synthetic)
    assert found.images.label_images is not None
    assert found.images.label_images[0].shape == (2, 8, 8)
    assert found.images.label_images[0][0].mean() == pytest.approx(1 / 6, abs=0.02)
    assert found.images.label_images[1][1].mean() == pytest.approx(1 / 2, abs=0.02)


def test_kernel_features_blur_every_level_by_itself() -> None:
    two = FourierFeatures.for_domain(Domain((Image("i", 6, 5, 3),)), 40, generator=torch.Generator().manual_seed(0))
    draws = torch.Generator().manual_seed(0)
    plain = FourierFeatures.for_domain(Domain.of_items(60), 40, generator=draws, gamma=two.gamma)
    assert two.width == plain.width == 60
    # Blurring shrinks frequencies; both planes are blurred, not the first alone.
    for plane in (slice(30), slice(30, 60)):
        assert two.angles[plane].astype(float).std() < 0.9 * plain.angles[plane].astype(float).std()
