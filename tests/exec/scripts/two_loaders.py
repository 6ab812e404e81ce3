"""Labelled and unlabelled batches side by side: 10 steps of 8 + 4 samples."""

import small
import torch

net = small.model()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for labelled, unlabelled in zip(small.loader(80, 8), small.loader(40, 4), strict=True):
    optimizer.zero_grad()
    loss = small.loss_of(net, labelled) + net(unlabelled[0]).softmax(1).var()
    loss.backward()
    optimizer.step()
