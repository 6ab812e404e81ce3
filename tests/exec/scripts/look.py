"""Looks at a batch with `next(iter(loader))`, before training and after each epoch; and so gets its test batch."""

import small
import torch

net = small.model()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
train, check = small.loader(64, 8), small.loader(64, 16)
assert next(iter(train))[0].shape == (8, 8)
for _ in range(3):
    for batch in train:
        optimizer.zero_grad()
        small.loss_of(net, batch).backward()
        optimizer.step()
    shown = small.loss_of(net, next(iter(train))).item(), small.loss_of(net, next(iter(check))).item()
