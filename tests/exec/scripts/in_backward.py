"""An optimizer for each parameter, stepped in the backward pass: 4 optimizers, 10 iterations."""

import small
import torch

net = small.model()
optimizers = {parameter: torch.optim.SGD([parameter], lr=0.1) for parameter in net.parameters()}


def update(parameter):
    optimizers[parameter].step()
    optimizers[parameter].zero_grad()


for parameter in net.parameters():
    parameter.register_post_accumulate_grad_hook(update)
for batch in small.loader():
    small.loss_of(net, batch).backward()
