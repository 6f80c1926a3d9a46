"""Images with labels: read from arrays and folders of files, and written back as they came."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pillow

from dpgm.data.domain import Categorical, Domain, Image
from dpgm.data.inspection import inspect_file
from dpgm.data.read.readers import read_records
from dpgm.data.records import grey_levels
from dpgm.data.writers import write_records
from dpgm.errors import DpgmError, InputError, UsageError

ANIMALS = Domain((Image("scan", 6, 5, 8), Categorical("animal", ("cat", "dog", "red fox"))), label="animal")
REVERSED = Domain(ANIMALS.fields[::-1], label="animal")


def pictures(count: int = 30, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = np.array(["cat", "dog", "red fox"])[rng.integers(0, 3, count)]
    return (rng.integers(0, 8, (count, 6, 5)) * 36.4).astype(np.uint8), labels


def write_folder(folder: Path, images: np.ndarray, labels: np.ndarray) -> Path:
    for number, (pixels, label) in enumerate(zip(images, labels, strict=True)):
        (folder / label).mkdir(parents=True, exist_ok=True)
        Pillow.fromarray(pixels).save(folder / label / f"{number:03}.png")
    return folder


@pytest.mark.parametrize("domain", [ANIMALS, REVERSED])
def test_arrays_of_images_and_labels_are_read_and_come_back_with_grey_values(tmp_path, domain: Domain) -> None:
    images, labels = pictures()
    np.savez(tmp_path / "in.npz", images=images, labels=labels)
    read = read_records(tmp_path / "in.npz", domain=domain)
    levels = grey_levels(read, next(field for field in domain.fields if isinstance(field, Image)))
    assert np.array_equal(levels, np.rint(images.reshape(30, 30) / 255 * 7))
    write_records(read, tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as again:
        assert again["labels"].tolist() == labels.tolist()
        assert again["images"].shape == images.shape
        assert again["images"].dtype == np.uint8
        assert np.abs(again["images"].astype(int) - images).max() <= 1
    assert read_records(tmp_path / "out.npz", domain=domain) == read


def test_folders_of_image_files_are_read_and_come_back(tmp_path) -> None:
    images, labels = pictures()
    folder = write_folder(tmp_path / "in", images, labels)
    read = read_records(folder, domain=ANIMALS)
    order = np.argsort(labels, kind="stable")
    assert np.array_equal(grey_levels(read, ANIMALS.fields[0]), np.rint(images[order].reshape(30, 30) / 255 * 7))  # type: ignore[arg-type]
    write_records(read, tmp_path / "out")
    assert {one.name for one in (tmp_path / "out").iterdir()} == {"cat", "dog", "red fox"}
    again = read_records(tmp_path / "out", domain=ANIMALS)
    assert again == read
    with Pillow.open(next((tmp_path / "out" / "cat").iterdir())) as picture:
        assert picture.size == (5, 6)
        assert picture.mode == "L"


def test_a_folder_is_never_replaced(tmp_path) -> None:
    read = read_records(write_folder(tmp_path / "in", *pictures()), domain=ANIMALS)
    with pytest.raises(DpgmError, match="exist"):
        write_records(read, tmp_path / "in", force=True)
    assert len(list((tmp_path / "in").rglob("*.png"))) == 30


def test_labels_that_are_no_names_never_become_folders(tmp_path) -> None:
    domain = Domain((Image("scan", 2, 2, 8), Categorical("animal", ("../up", "dog"))), label="animal")
    np.savez(tmp_path / "in.npz", images=np.zeros((3, 2, 2), np.uint8), labels=["dog", "../up", "dog"])
    read = read_records(tmp_path / "in.npz", domain=domain)
    with pytest.raises(UsageError, match="cannot be the name of a folder"):
        write_records(read, tmp_path / "out")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["in.npz"]


def test_labels_without_a_domain_are_digits_or_declared_public(tmp_path) -> None:
    images, labels = pictures()
    np.savez(tmp_path / "texts.npz", images=images > 99, labels=labels)
    with pytest.raises(InputError, match="not the digits 0 to 9; state them in a domain file"):
        read_records(tmp_path / "texts.npz")
    assert read_records(tmp_path / "texts.npz", assume_public_items=True).domain.fields[1].values == (  # type: ignore[union-attr]
        "cat",
        "dog",
        "red fox",
    )
    drafted = inspect_file(tmp_path / "texts.npz", draft_domain=tmp_path / "domain.yaml")
    assert drafted.domain_is_draft
    np.savez(tmp_path / "digits.npz", images=images > 99, labels=np.arange(30) % 10)
    assert read_records(tmp_path / "digits.npz").domain.fields[1].values == tuple(range(10))  # type: ignore[union-attr]


def test_one_image_changes_no_other(tmp_path) -> None:
    """A file of another mode, with transparency, colours or 16 bits, is read by itself."""
    images, labels = pictures()
    plain = read_records(write_folder(tmp_path / "plain", images, labels), domain=ANIMALS)
    changed = write_folder(tmp_path / "changed", images, labels)
    first = sorted((changed / "cat").iterdir())[0]
    for mode in ("RGB", "RGBA", "P", "1", "I;16"):
        Pillow.fromarray(images[0]).convert(mode).save(first)
        other = read_records(changed, domain=ANIMALS)
        assert np.array_equal(other.to_dense()[1:], plain.to_dense()[1:])


def test_values_of_16_bits_keep_their_brightness(tmp_path) -> None:
    write_folder(tmp_path / "in", *pictures(3))
    for file in (tmp_path / "in").rglob("*.png"):
        Pillow.fromarray(np.full((6, 5), 65_535, np.uint16)).save(file)
    assert (grey_levels(read_records(tmp_path / "in", domain=ANIMALS), ANIMALS.fields[0]) == 7).all()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [("size", "bring all images to one size"), ("damage", "is not an image"), ("beside", "beside sub-folders")],
)
def test_folders_with_faults_are_refused(tmp_path, fault: str, sentence: str) -> None:
    folder = write_folder(tmp_path / "in", *pictures())
    if fault == "size":
        Pillow.fromarray(np.zeros((9, 9), np.uint8)).save(folder / "dog" / "zzz.png")
    elif fault == "damage":
        (folder / "dog" / "zzz.png").write_bytes(b"not a picture")
    else:
        Pillow.fromarray(np.zeros((6, 5), np.uint8)).save(folder / "zzz.png")
    with pytest.raises(InputError, match=sentence):
        read_records(folder, domain=ANIMALS)


def test_arrays_that_do_not_match_are_refused(tmp_path) -> None:
    images, labels = pictures()
    for number, (some, others) in enumerate([(images, labels[:-1]), (images[0], labels), (images, images)]):
        path = tmp_path / f"{number}.npz"
        np.savez(path, images=some, labels=others)
        with pytest.raises(InputError, match=r"labels|dimensions"):
            read_records(path, domain=ANIMALS)
