"""What the scripts share: a tiny model, data, and a loader. As a user's own helper module would be."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


def data(samples=80):
    return TensorDataset(torch.randn(samples, 8), torch.randint(0, 2, (samples,)))


def loader(samples=80, batch=8, **options):
    return DataLoader(data(samples), batch_size=batch, **options)


def model():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))


def loss_of(net, batch):
    return nn.functional.cross_entropy(net(batch[0]), batch[1])
