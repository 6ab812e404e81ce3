"""A Wasserstein GAN: the critic is updated with every batch, the generator with every fifth."""

import small
import torch
from torch import nn

generator = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 8))
critic = nn.Linear(8, 1)
critic_optimizer = torch.optim.RMSprop(critic.parameters(), lr=5e-5)
optimizer = torch.optim.RMSprop(generator.parameters(), lr=5e-5)
for index, (real, _) in enumerate(small.loader(320, 4)):
    critic_optimizer.zero_grad()
    fake = generator(torch.randn(len(real), 4)).detach()
    (critic(fake).mean() - critic(real).mean()).backward()
    critic_optimizer.step()
    for parameter in critic.parameters():
        parameter.data.clamp_(-0.01, 0.01)
    if index % 5 == 4:
        optimizer.zero_grad()
        (-critic(generator(torch.randn(len(real), 4))).mean()).backward()
        optimizer.step()
