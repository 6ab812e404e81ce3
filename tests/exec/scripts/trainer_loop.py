"""A trainer as libraries write them: it reads one batch ahead, accumulates, evaluates in between, saves at the end."""

import io

import small
import torch


def one_ahead(loader):
    source = iter(loader)
    following = next(source)
    for batch in source:
        yield following
        following = batch
    yield following


class Trainer:
    def __init__(self, net, accumulate):
        self.net, self.accumulate = net, accumulate
        self.optimizer = torch.optim.AdamW(net.parameters())
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: 1 / (1 + step))

    def fit(self, train, check, epochs):
        for _ in range(epochs):
            self.net.train()
            for index, batch in enumerate(one_ahead(train)):
                (small.loss_of(self.net, batch) / self.accumulate).backward()
                if (index + 1) % self.accumulate == 0:
                    self.optimizer.step()
                    self.schedule.step()
                    self.optimizer.zero_grad()
            self.evaluate(check)
        torch.save(self.net.state_dict(), io.BytesIO())

    @torch.no_grad()
    def evaluate(self, check):
        self.net.eval()
        return sum(float(small.loss_of(self.net, batch)) for batch in one_ahead(check))


Trainer(small.model(), 2).fit(small.loader(80, 8, shuffle=True), small.loader(24, 8), 3)
