"""A recurrent network that wants time first: batches of (time, batch, features), padded by a collate function."""

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

torch.manual_seed(0)
DATA = [(torch.randn(10 + index % 5, 4), index % 2) for index in range(100)]


def collate(samples):
    return pad_sequence([x for x, _ in samples]), torch.tensor([y for _, y in samples])


net, head = nn.RNN(4, 8), nn.Linear(8, 2)
optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1)
for _ in range(2):
    for x, y in DataLoader(DATA, batch_size=32, collate_fn=collate, shuffle=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(head(net(x)[0][-1]), y).backward()
        optimizer.step()
