"""Two passes over 10 batches, a step for each 4: the third step takes batches of both passes."""

import small
import torch

net = small.model()
optimizer = torch.optim.AdamW(net.parameters())
seen = 0
for _ in range(2):
    for batch in small.loader(80, 8):
        (small.loss_of(net, batch) / 4).backward()
        seen += 1
        if seen % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
