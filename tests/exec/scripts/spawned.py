"""Ranks started by torch.multiprocessing: no launcher tells them who they are, only the process group does."""

import time

import small
import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def work(rank, port):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    net = torch.nn.parallel.DistributedDataParallel(small.model())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for batch in small.loader(24, 8):
        optimizer.zero_grad()
        small.loss_of(net, batch).backward()
        optimizer.step()
    dist.destroy_process_group()
    # Gloo's threads need the interpreter once more after the last collective, and abort the process if it is gone.
    time.sleep(0.2)


if __name__ == "__main__":
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(work, args=(port,), nprocs=2)
