"""Two optimizers: the small discriminator steps first, the larger generator second. One iteration is one step."""

import small
import torch
from torch import nn

generator = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 8))
judge = nn.Linear(8, 1)
judge_optimizer = torch.optim.Adam(judge.parameters())
optimizer = torch.optim.Adam(generator.parameters())
for real, _ in small.loader(48, 8):
    fake = generator(torch.randn(len(real), 4))
    judge_optimizer.zero_grad()
    (judge(fake.detach()).mean() - judge(real).mean()).backward()
    judge_optimizer.step()
    optimizer.zero_grad()
    (-judge(fake).mean()).backward()
    optimizer.step()
