"""Batches of graphs are one large graph: an object with the nodes of all, which does not tell how many there are."""

import torch
from torch import nn
from torch.utils.data import DataLoader

torch.manual_seed(0)


class Data:
    def __init__(self, x, edge_index, y, batch=None):
        self.x, self.edge_index, self.y, self.batch = x, edge_index, y, batch


def graph(index):
    nodes = 3 + index % 5
    return Data(torch.randn(nodes, 4), torch.randint(0, nodes, (2, 2 * nodes)), torch.tensor([index % 2]))


def collate(graphs):
    sizes = torch.tensor([len(one.x) for one in graphs])
    starts = sizes.cumsum(0) - sizes
    edges = torch.cat([one.edge_index + start for one, start in zip(graphs, starts, strict=True)], 1)
    owner = torch.arange(len(graphs)).repeat_interleave(sizes)
    return Data(torch.cat([one.x for one in graphs]), edges, torch.cat([one.y for one in graphs]), owner)


net, head = nn.Linear(4, 8), nn.Linear(8, 2)
optimizer = torch.optim.Adam([*net.parameters(), *head.parameters()])
for batch in DataLoader([graph(index) for index in range(80)], batch_size=16, collate_fn=collate):
    hidden = net(batch.x)
    hidden = hidden.index_add(0, batch.edge_index[1], hidden[batch.edge_index[0]]).relu()
    pooled = torch.zeros(int(batch.batch.max()) + 1, 8).index_add(0, batch.batch, hidden)
    optimizer.zero_grad()
    nn.functional.cross_entropy(head(pooled), batch.y).backward()
    optimizer.step()
