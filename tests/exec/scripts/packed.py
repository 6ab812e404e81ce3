"""Sequences packed in the collate function: the tensor inside is as long as all sequences together."""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_sequence
from torch.utils.data import DataLoader

torch.manual_seed(0)
DATA = [(torch.randn(3 + index % 7, 4), index % 2) for index in range(50)]


def collate(samples):
    packed = pack_sequence([x for x, _ in samples], enforce_sorted=False)
    return packed, torch.tensor([y for _, y in samples])


net, head = nn.LSTM(4, 8), nn.Linear(8, 2)
optimizer = torch.optim.Adam([*net.parameters(), *head.parameters()])
for x, y in DataLoader(DATA, batch_size=8, collate_fn=collate, num_workers=1):
    optimizer.zero_grad()
    nn.functional.cross_entropy(head(net(x)[1][0][-1]), y).backward()
    optimizer.step()
