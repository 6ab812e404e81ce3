"""Four ways to evaluate between steps; none of their samples was trained on."""

import small
import torch

net = small.model()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
check = small.loader(64, 16)


def proper():
    net.eval()
    with torch.no_grad():
        for batch in check:
            small.loss_of(net, batch)
    net.train()


def only_mode():
    net.eval()
    for index, batch in enumerate(check):
        with torch.inference_mode():
            small.loss_of(net, batch)
        if index == 1:
            break  # the loader does not come to its end
    net.train()


@torch.inference_mode()
def only_inference():
    for batch in check:
        small.loss_of(net, batch)


def careless():
    for batch in check:
        small.loss_of(net, batch)


careless()  # before training
for evaluate in (proper, only_mode, only_inference, careless):
    for batch in small.loader(40, 8):
        optimizer.zero_grad()
        small.loss_of(net, batch).backward()
        optimizer.step()
    evaluate()
