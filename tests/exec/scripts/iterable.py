"""An IterableDataset of unknown length, read by two forked workers: 2 × 21 samples by 4."""

import small
import torch
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    def __iter__(self):
        for number in range(21):
            yield torch.randn(8), number % 2


net = small.model()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for batch in DataLoader(Stream(), batch_size=4, num_workers=2):
    optimizer.zero_grad()
    small.loss_of(net, batch).backward()
    optimizer.step()
