"""Data made by hand, two optimizers: nothing but the user's word tells how many samples a step has."""

import small
import torch

net, head = small.model(), torch.nn.Linear(2, 1)
small_optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(12):
    loss = head(net(torch.randn(32, 8))).square().mean()
    loss.backward()
    small_optimizer.step()
    optimizer.step()
