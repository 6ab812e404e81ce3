"""A loop by the book of accelerate, which reads one batch ahead: 84 samples by 4, a step for each 3 batches, twice."""

import small
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader

accelerator = Accelerator(cpu=True, gradient_accumulation_steps=3)
net = small.model()
optimizer = torch.optim.AdamW(net.parameters())
loader = DataLoader(small.data(84), batch_size=4)
check = DataLoader(small.data(16), batch_size=4)
net, optimizer, loader, check = accelerator.prepare(net, optimizer, loader, check)
for _ in range(2):
    net.train()
    for batch in loader:
        with accelerator.accumulate(net):
            accelerator.backward(small.loss_of(net, batch))
            optimizer.step()
            optimizer.zero_grad()
    net.eval()
    with torch.no_grad():
        for batch in check:
            small.loss_of(net, batch)
accelerator.end_training()
