"""Folders of image files on the command line."""

from pathlib import Path

import numpy as np
from PIL import Image as Pillow

from dpgm.cli.app import run


def test_the_commands_take_and_give_folders_of_images(tmp_path, capsys) -> None:
    labels = np.repeat(["left", "right"], 100)
    bright = (np.arange(8) < 4) == (labels == "left")[:, None, None]
    images = np.where(np.broadcast_to(bright, (200, 8, 8)), 230, 20).astype(np.uint8)
    folder, domain, release, made = (str(tmp_path / name) for name in ("in", "domain.yaml", "release", "made"))
    for number, (pixels, label) in enumerate(zip(images, labels, strict=True)):
        (tmp_path / "in" / label).mkdir(parents=True, exist_ok=True)
        Pillow.fromarray(pixels).save(tmp_path / "in" / label / f"{number}.png")
    Path(domain).write_text(
        "fields:\n- {name: scan, kind: image, height: 8, columns: 8, levels: 4}\n"
        "- {name: side, kind: categorical, values: [left, right]}\nlabel: side\n"
    )
    fit = ["fit", folder, "--domain", domain, "--model", "independent", "--epsilon", "5", "--out", release]
    assert run([*fit, "--delta", "1e-5", "--quiet"]) == 0, capsys.readouterr()
    assert run(["sample", release, "--records", "50", "--out", made]) == 0, capsys.readouterr()
    assert {one.name for one in Path(made).iterdir()} == {"left", "right"}
    told = run(["evaluate", folder, made, "--release", release, "--out", str(tmp_path / "report.html")])
    assert told == 0, capsys.readouterr()
