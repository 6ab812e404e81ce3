"""Texts of different lengths, one after another in one tensor, with offsets: as tutorials on text classification do."""

import torch
from torch import nn
from torch.utils.data import DataLoader

torch.manual_seed(0)
TEXTS = [(index % 4, torch.randint(0, 100, (5 + index % 30,))) for index in range(100)]


def collate(samples):
    lengths = [len(text) for _, text in samples]
    offsets = torch.tensor([0, *lengths[:-1]]).cumsum(0)
    return torch.cat([text for _, text in samples]), offsets, torch.tensor([label for label, _ in samples])


net, head = nn.EmbeddingBag(100, 8), nn.Linear(8, 4)
optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=1.0)
for text, offsets, label in DataLoader(TEXTS, batch_size=8, collate_fn=collate, shuffle=True):
    optimizer.zero_grad()
    nn.functional.cross_entropy(head(net(text, offsets)), label).backward()
    nn.utils.clip_grad_norm_(head.parameters(), 0.1)
    optimizer.step()
