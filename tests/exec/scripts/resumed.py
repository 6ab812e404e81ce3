"""Goes on in the middle of an epoch by skipping what an earlier run has trained on, and skips batches it dislikes."""

import small
import torch

net = small.model()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for index, batch in enumerate(small.loader(250, 8)):
    if index < 7 or index == 20:
        continue
    optimizer.zero_grad()
    small.loss_of(net, batch).backward()
    optimizer.step()
