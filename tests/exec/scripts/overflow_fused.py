"""The same with a fused optimizer, which skips inside its kernel: its hooks fire although nothing was updated."""

import small
import torch

net = small.model()
optimizer = torch.optim.AdamW(net.parameters(), fused=True)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for index, batch in enumerate(small.loader()):
    optimizer.zero_grad()
    loss = small.loss_of(net, batch)
    if index == 3:
        loss = loss * float("inf")
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
