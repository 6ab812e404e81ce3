"""Models trained in turn, every optimizer made before, the largest neither first nor last; then the first goes on."""

import small
import torch
from torch import nn

nets = [small.model(), nn.Linear(8, 2), nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 2)), small.model()]
optimizers = [torch.optim.SGD(net.parameters(), lr=0.1) for net in nets]
for turn in (0, 1, 2, 3, 0):
    for batch in small.loader(43, 8):
        optimizers[turn].zero_grad()
        small.loss_of(nets[turn], batch).backward()
        optimizers[turn].step()
