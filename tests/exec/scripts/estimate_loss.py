"""Data cut out of one long text, and a loss that is estimated now and then over many batches, all without a loader."""

import time

import torch
from torch import nn

torch.manual_seed(0)
TEXT = torch.randint(0, 32, (4096,))
net = nn.Sequential(nn.Embedding(32, 16), nn.Linear(16, 32))
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)


def get_batch():
    starts = torch.randint(len(TEXT) - 17, (12,)).tolist()
    x = torch.stack([TEXT[start : start + 16] for start in starts])
    return x, torch.stack([TEXT[start + 1 : start + 17] for start in starts])


def loss_of(x, y):
    time.sleep(0.002)  # a model that takes its time
    return nn.functional.cross_entropy(net(x).flatten(0, 1), y.flatten())


@torch.no_grad()
def estimate_loss():
    net.eval()
    found = sum(loss_of(*get_batch()).item() for _ in range(20)) / 20
    net.train()
    return found


@torch.no_grad()
def quick_look():
    return [loss_of(*get_batch()).item() for _ in range(10)]


for step in range(40):
    if step % 10 == 0:
        estimate_loss()
    if step == 25:
        quick_look()
    loss = loss_of(*get_batch())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
