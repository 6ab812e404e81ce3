"""Fully sharded: each rank's optimizer holds a part of the parameters."""

import small
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
net = small.model()
for layer in (net[0], net[2]):
    fully_shard(layer)
fully_shard(net)
optimizer = torch.optim.AdamW(net.parameters())
for batch in small.loader(48, 8):
    optimizer.zero_grad()
    small.loss_of(net, batch).backward()
    optimizer.step()
dist.destroy_process_group()
