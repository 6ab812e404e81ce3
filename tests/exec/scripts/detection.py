"""Detection: a list of images of different sizes and a list of mappings with boxes, read from a stream."""

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

torch.manual_seed(0)


class Pictures(IterableDataset):
    def __iter__(self):
        for index in range(62):
            boxes = torch.rand(1 + index % 3, 4)
            yield torch.randn(3, 8 + index % 4, 8), {"boxes": boxes, "labels": torch.ones(len(boxes), dtype=torch.long)}


def collate(samples):
    images, targets = zip(*samples, strict=True)
    return list(images), list(targets)


net = nn.Conv2d(3, 4, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for images, targets in DataLoader(Pictures(), batch_size=4, collate_fn=collate):
    optimizer.zero_grad()
    losses = [net(image).mean(dim=(1, 2)).sub(target["boxes"].mean(0)).square().mean()
              for image, target in zip(images, targets, strict=True)]  # fmt: skip
    sum(losses).backward()
    optimizer.step()
