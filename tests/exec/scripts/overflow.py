"""Ten iterations under a GradScaler; the gradients of the fourth are infinite, so that its update is skipped."""

import small
import torch

net = small.model()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for index, batch in enumerate(small.loader()):
    optimizer.zero_grad()
    loss = small.loss_of(net, batch)
    if index == 3:
        loss = loss * float("inf")
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
