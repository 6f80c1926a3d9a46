"""Plain autograd versions of the models, written independently, and small data of every field type."""

import numpy as np
import torch
import torch.nn.functional as F

from dpgm.data.domain import Categorical, Domain, Image, ItemSet, Numeric
from dpgm.data.records import Records
from dpgm.networks.batch import SegmentedBatch, TiledBatch
from dpgm.networks.model import Views

SETS = Domain((ItemSet("items", tuple(range(23))),))
MIXED = Domain(
    (
        ItemSet("items", tuple(range(9))),
        Categorical("city", ("a", "b", "c"), missing=True),
        Numeric("age", 0, 100, 5),
        Image("picture", 2, 3),
        Categorical("one", ("only",)),
    )
)


def random_records(domain: Domain, count: int, seed: int = 0) -> Records:
    """Random valid records; the first has no item and no value at all."""
    rng = np.random.default_rng(seed)
    dense = np.zeros((count, domain.width))
    for block in domain.blocks:
        if block.softmax:
            dense[np.arange(count), block.start + rng.integers(block.width, size=count)] = 1
        else:
            dense[:, block.start : block.stop] = rng.random((count, block.width)) < 0.3
    if count:
        dense[0] = 0
    return Records.from_dense(dense, domain)


def vae_loss(model, parameters, record, draws):
    """Loss of one record, by torch's own functions."""
    at = 0

    def linear(inputs, width):
        nonlocal at
        rows = inputs.shape[0]
        weight = parameters[at : at + rows * width].reshape(rows, width)
        bias = parameters[at + rows * width : at + (rows + 1) * width]
        at += (rows + 1) * width
        return inputs @ weight + bias

    signal = record
    for size in model.hidden:
        signal = torch.relu(linear(signal, size))
    heads = linear(signal, 2 * model.latent)
    mean, log_variance = heads[: model.latent], heads[model.latent :]
    signal = mean + torch.exp(log_variance / 2) * draws
    for size in reversed(model.hidden):
        signal = torch.relu(linear(signal, size))
    logits = linear(signal, model.domain.width)
    divergence = -0.5 * torch.sum(1 + log_variance - mean**2 - torch.exp(log_variance))
    return divergence + output_loss(model.domain, logits, record)


def output_loss(domain, logits, record):
    total = 0.0
    for block in domain.blocks:
        o, x = logits[block.start : block.stop], record[block.start : block.stop]
        if block.softmax:
            total = total - torch.sum(x * torch.log_softmax(o, 0))
        else:
            total = total + F.binary_cross_entropy_with_logits(o, x, reduction="sum")
    return total


def free_energy(model, parameters, record, draws):
    """Free energy of an RBM; its gradient is minus the data phase."""
    m, h = model.domain.width, model.hidden
    weight = parameters[: m * h].reshape(m, h)
    hidden, visible = parameters[m * h : m * h + h], parameters[m * h + h :]
    return -(visible @ record) - F.softplus(hidden + record @ weight).sum()


def per_record_gradients(loss, model, parameters, records, clusters, draws):
    """(n, P) by torch.func."""
    dense = torch.from_numpy(records.to_dense(np.float64))
    gradient = torch.func.vmap(torch.func.grad(lambda p, x, n: loss(model, p, x, n)))
    return gradient(parameters[torch.from_numpy(clusters)], dense, draws)


def segmented(model, parameters, records, clusters, draws):
    """A segmented batch, and the order in which it holds the records."""
    k = len(parameters)
    order = np.argsort(clusters, kind="stable")
    bounds = np.concatenate([[0], np.cumsum(np.bincount(clusters, minlength=k))]).astype(np.int64)
    batch = SegmentedBatch(Views(model.layout, parameters), records, order, bounds, draws[torch.from_numpy(order)])
    return batch, order


def tiled(model, parameters, records, clusters, draws):
    """A batch in tiles, two for some networks, and the place of every record."""
    k = len(parameters)
    counts = np.bincount(clusters, minlength=k)
    size = max(int(counts.max(initial=1)) - 1, 1)
    owners = np.repeat(np.arange(k), np.maximum(-(-counts // size), 1))
    place = np.zeros(len(clusters), dtype=np.int64)
    for s in range(k):
        place[clusters == s] = np.flatnonzero(owners == s)[0] * size + np.arange(counts[s])
    dense = torch.zeros(len(owners) * size, records.width, dtype=parameters.dtype)
    dense[place] = torch.from_numpy(records.to_dense(np.float64)).to(parameters.dtype)
    unused = torch.ones(len(dense), dtype=torch.bool)
    unused[place] = False
    noise = parameters.new_zeros(len(dense), draws.shape[1])
    noise[place] = draws
    batch = TiledBatch(model.layout, parameters, torch.from_numpy(owners), dense, unused, noise)
    return batch, place
