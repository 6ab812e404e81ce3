"""A compiled model and a compiled optimizer step."""

import small
import torch

net = small.model()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
forward = torch.compile(net, backend="eager")


@torch.compile(backend="eager")
def update():
    optimizer.step()


for batch in small.loader():
    optimizer.zero_grad()
    small.loss_of(forward, batch).backward()
    update()
