"""Batches that are no stacked tensors: a list of samples of different sizes, a mapping inside an object."""

import collections

import small
import torch
from torch.utils.data import DataLoader


class Encoding(collections.UserDict):
    pass


def pairs(batch):
    return tuple(zip(*batch, strict=True))


def encoding(batch):
    return Encoding(names=["a"] * len(batch), ids=torch.stack([x for x, _ in batch]))


net = small.model()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
pictures = [(torch.randn(3, 4 + index % 3, 8), {"boxes": torch.randn(index, 4)}) for index in range(21)]
for images, _ in DataLoader(pictures, batch_size=4, collate_fn=pairs):
    optimizer.zero_grad()
    sum(net(image).sum() for image in images).backward()
    optimizer.step()
for batch in DataLoader(small.data(20), batch_size=8, collate_fn=encoding):
    optimizer.zero_grad()
    net(batch["ids"]).sum().backward()
    optimizer.step()
