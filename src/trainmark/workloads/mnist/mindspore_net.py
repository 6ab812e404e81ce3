"""The small convolutional network, in MindSpore's cells."""

from __future__ import annotations

from mindspore import nn
from shared import CHANNELS, DENSE
from trainmark_mindspore import convolution, dense


class SmallNet(nn.Cell):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.conv1 = convolution(CHANNELS[0], CHANNELS[1], 3, 1, bias=True)
        self.conv2 = convolution(CHANNELS[1], CHANNELS[2], 3, 1, bias=True)
        self.pool = nn.MaxPool2d(2, 2)
        self.dense1 = dense(CHANNELS[2] * 7 * 7, DENSE)
        self.dense2 = dense(DENSE, classes)
        self.relu = nn.ReLU()

    def construct(self, images):  # type: ignore[no-untyped-def]
        hidden = self.pool(self.relu(self.conv1(images)))
        hidden = self.pool(self.relu(self.conv2(hidden)))
        hidden = self.relu(self.dense1(hidden.reshape((hidden.shape[0], -1))))
        return self.dense2(hidden)
