"""A small convolutional network for 28 x 28 grey images."""

from __future__ import annotations

from torch import Tensor, nn


class SmallNet(nn.Module):
    """Two convolutions, each followed by pooling, and two dense layers."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.dense1 = nn.Linear(32 * 7 * 7, 128)
        self.dense2 = nn.Linear(128, classes)
        self.relu = nn.ReLU()

    def forward(self, images: Tensor) -> Tensor:
        hidden = self.pool(self.relu(self.conv1(images)))
        hidden = self.pool(self.relu(self.conv2(hidden)))
        hidden = self.relu(self.dense1(hidden.flatten(1)))
        answers: Tensor = self.dense2(hidden)
        return answers
