"""ResNet-50 as a plain program trains it: eager, fp32, default layout, default allocator, default threads.

Prints the seconds of each step, one a line. The model is trainmark's own, so only the settings differ.
"""

from __future__ import annotations

import sys
from time import perf_counter

import torch
from torch.nn.functional import cross_entropy

BATCH, SIZE, CLASSES = 32, 224, 1000


def main() -> None:
    workloads, steps = sys.argv[1], int(sys.argv[2])
    sys.path[:0] = [f"{workloads}/resnet50", f"{workloads}/lib"]
    from model import ResNet50

    torch.manual_seed(0)
    model = ResNet50(CLASSES)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0125, momentum=0.9, weight_decay=1e-4)
    images, labels = torch.randn(BATCH, 3, SIZE, SIZE), torch.randint(CLASSES, (BATCH,))
    for _ in range(steps):
        start = perf_counter()
        optimizer.zero_grad()
        cross_entropy(model(images), labels).backward()
        optimizer.step()
        print(perf_counter() - start, flush=True)


if __name__ == "__main__":
    main()
