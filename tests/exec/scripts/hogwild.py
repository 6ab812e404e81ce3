"""Hogwild: two processes train one shared model without asking each other."""

import small
import torch
import torch.multiprocessing as mp


def work(net, seed, both):
    torch.manual_seed(seed)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(5):
        for batch in small.loader(80, 8, shuffle=True):
            optimizer.zero_grad()
            small.loss_of(net, batch).backward()
            optimizer.step()
        both.wait()


if __name__ == "__main__":
    mp.set_start_method("spawn")
    net = small.model()
    net.share_memory()
    both = mp.Barrier(2)
    workers = [mp.Process(target=work, args=(net, seed, both)) for seed in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
