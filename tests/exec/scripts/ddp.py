"""DistributedDataParallel under torchrun; rank 1 has fewer samples in its last batch."""

import small
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Subset

dist.init_process_group("gloo")
net = torch.nn.parallel.DistributedDataParallel(small.model())
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
mine = Subset(small.data(40), range(40 - dist.get_rank()))
for batch in DataLoader(mine, batch_size=8, num_workers=1):
    optimizer.zero_grad()
    small.loss_of(net, batch).backward()
    optimizer.step()
dist.destroy_process_group()
