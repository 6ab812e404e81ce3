"""LBFGS evaluates its closure many times in one step."""

import small
import torch

net = small.model()
optimizer = torch.optim.LBFGS(net.parameters(), max_iter=5)
for batch in small.loader(40, 8):

    def closure(batch=batch):
        optimizer.zero_grad()
        loss = small.loss_of(net, batch)
        loss.backward()
        return loss

    optimizer.step(closure)
