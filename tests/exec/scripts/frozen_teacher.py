"""Distillation: the teacher's eval() is the last call, which looks like an evaluation; and an optimizer nobody uses."""

import small
import torch

net, teacher = small.model(), small.model()
unused = torch.optim.SGD([*net.parameters(), *teacher.parameters()], lr=0.1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
net.train()
teacher.eval()
for _ in range(2):
    for batch in small.loader():
        optimizer.zero_grad()
        with torch.no_grad():
            wanted = teacher(batch[0])
        (net(batch[0]) - wanted).square().mean().backward()
        optimizer.step()
