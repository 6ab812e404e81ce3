"""ResNet-50 v1.5 in MindSpore's cells."""

from __future__ import annotations

from mindspore import nn
from shared import EXPANSION, LAYERS, STEM
from trainmark_mindspore import convolution, dense, normalisation


class Bottleneck(nn.Cell):
    """1 x 1 down, 3 x 3, 1 x 1 up, added to the input or its projection."""

    def __init__(self, inputs: int, width: int, stride: int, project: bool) -> None:
        super().__init__()
        outputs = width * EXPANSION
        self.conv1, self.bn1 = convolution(inputs, width, 1, 1), normalisation(width)
        self.conv2, self.bn2 = convolution(width, width, 3, stride), normalisation(width)
        self.conv3, self.bn3 = convolution(width, outputs, 1, 1), normalisation(outputs)
        self.relu = nn.ReLU()
        self.downsample = None
        if project:
            self.downsample = nn.SequentialCell(convolution(inputs, outputs, 1, stride), normalisation(outputs))

    def construct(self, images):  # type: ignore[no-untyped-def]
        shortcut = images
        if self.downsample is not None:
            shortcut = self.downsample(images)
        hidden = self.relu(self.bn1(self.conv1(images)))
        hidden = self.relu(self.bn2(self.conv2(hidden)))
        return self.relu(self.bn3(self.conv3(hidden)) + shortcut)


class ResNet50(nn.Cell):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = convolution(3, STEM, 7, 2), normalisation(STEM)
        self.relu = nn.ReLU()
        self.pool = nn.MaxPool2d(3, 2, pad_mode="pad", padding=1)
        inputs, layers = STEM, []
        for blocks, width, stride in LAYERS:
            layer = [Bottleneck(inputs, width, stride, project=True)]
            inputs = width * EXPANSION
            layer += [Bottleneck(inputs, width, 1, project=False) for _ in range(blocks - 1)]
            layers.append(nn.SequentialCell(layer))
        self.layer1, self.layer2, self.layer3, self.layer4 = layers
        self.fc = dense(inputs, classes)

    def construct(self, images):  # type: ignore[no-untyped-def]
        hidden = self.pool(self.relu(self.bn1(self.conv1(images))))
        hidden = self.layer4(self.layer3(self.layer2(self.layer1(hidden))))
        return self.fc(hidden.mean((2, 3)))
