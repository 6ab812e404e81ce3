"""Sequences with padding: a mask tells which of their tokens count."""

import torch
from torch import nn
from torch.utils.data import DataLoader

torch.manual_seed(0)
LENGTHS = [4 + index % 5 for index in range(20)]


def collate(lengths):
    mask = torch.tensor([[place < length for place in range(8)] for length in lengths]).long()
    return {"input_ids": torch.randint(1, 32, mask.shape) * mask, "attention_mask": mask}


net = nn.Sequential(nn.Embedding(32, 8), nn.Linear(8, 32))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for batch in DataLoader(LENGTHS, batch_size=4, collate_fn=collate):
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(batch["input_ids"]).flatten(0, 1), batch["input_ids"].flatten()).backward()
    optimizer.step()
