"""Takes each batch by `next(iter(loader))`, which begins a new pass every time."""

import small
import torch

net = small.model()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
train, more = small.loader(64, 8, shuffle=True), small.loader(64, 4, shuffle=True)
for _ in range(12):
    batch, unlabelled = next(iter(train)), next(iter(more))
    optimizer.zero_grad()
    (small.loss_of(net, batch) + net(unlabelled[0]).softmax(1).var()).backward()
    optimizer.step()
