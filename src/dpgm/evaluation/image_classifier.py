"""A small convolutional network that learns labels from images, in torch, in seconds on one core."""

from typing import Any

import numpy as np

from dpgm.data.domain import Categorical, Domain, Image
from dpgm.data.pictures import grey_values
from dpgm.data.records import Records
from dpgm.errors import UsageError
from dpgm.evaluation.marginals import field_codes

CNN_VISITS = 30_000  # training examples shown to the network: about ten seconds on one core
MOST_PASSES = 20  # over few training records


def label_field(domain: Domain) -> int:
    """Number of the categorical field that the domain names as its label."""
    if domain.label is None:
        raise UsageError("the domain names no label field.")
    at = [field.name for field in domain.fields].index(domain.label)
    if not isinstance(domain.fields[at], Categorical):
        raise UsageError(f"the label {domain.label!r} is not a categorical field.")
    return at


def image_accuracy(
    train: Records, test: Records, *, visits: int = CNN_VISITS, most: int = 60_000, seed: int = 0
) -> float:
    """Accuracy on `test` of a small convolutional network trained on the images and labels of `train`.

    Two convolutions with pooling, one hidden layer, Adam with a one-cycle rate. `visits` training examples are
    shown, passing over at most `most` records as often as that takes, but no more than 20 times.
    """
    import torch
    from torch import nn

    label = label_field(train.domain)
    if len(train) > most:
        train = train.rows(0, most)
    images, answers = _image_tensors(train, label)
    generator = torch.Generator().manual_seed(seed)
    picture = _picture(train.domain)
    small = (picture.height // 4) * (picture.columns // 4)
    if small == 0:
        raise UsageError("images below 4 x 4 pixels are too small for the convolutional network.")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # initial weights; public, and the caller's state is restored
        network = nn.Sequential(
            nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(32 * small, 96), nn.ReLU(),
            nn.Linear(96, train.domain.fields[label].width),
        )  # fmt: skip
    steps = max(1, min(visits, MOST_PASSES * len(answers)) // 128)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=steps + 1)
    order = torch.randperm(len(answers), generator=generator)
    at = 0
    for _ in range(steps):
        if at + 128 > len(order) and at > 0:
            order, at = torch.randperm(len(answers), generator=generator), 0
        batch = order[at : at + 128]
        at += 128
        loss = nn.functional.cross_entropy(network(images[batch].float()), answers[batch])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    images, answers = _image_tensors(test, label)
    with torch.no_grad():
        right = [
            (network(images[a : a + 500].float()).argmax(1) == answers[a : a + 500]).sum()
            for a in range(0, len(answers), 500)
        ]
    return float(sum(right)) / max(1, len(answers))


def _picture(domain: Domain) -> Image:
    return next(field for field in domain.fields if isinstance(field, Image))


def _image_tensors(records: Records, label: int) -> tuple[Any, Any]:
    import torch

    answers = field_codes(records, label)
    known = np.flatnonzero(answers < records.domain.fields[label].width)
    records, answers = records.take(known), answers[known]
    picture = _picture(records.domain)
    images = torch.from_numpy(grey_values(records, picture)).unsqueeze(1)
    return images, torch.from_numpy(answers)
