"""Epochs that are cut short: the batch at which the loop is left was read and not trained on."""

import small
import torch

net = small.model()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
train = small.loader(160, 8, shuffle=True, num_workers=1, persistent_workers=True)
for _ in range(4):
    for index, batch in enumerate(train):
        if index >= 10:
            break
        optimizer.zero_grad()
        small.loss_of(net, batch).backward()
        optimizer.step()
