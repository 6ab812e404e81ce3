"""ResNet-50 v1.5: the stride of a down-sampling block sits in its 3 x 3 convolution. Names are torchvision's.

Its first weights come from outside, the same for all frameworks.
"""

from __future__ import annotations

from torch import Tensor, nn
from trainmark_resnet50 import EXPANSION, LAYERS


class Bottleneck(nn.Module):
    """1 x 1 down, 3 x 3, 1 x 1 up, added to the input or its projection."""

    def __init__(self, inputs: int, width: int, stride: int, project: bool) -> None:
        super().__init__()
        outputs = width * EXPANSION
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if project:
            projection = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.downsample = nn.Sequential(projection, nn.BatchNorm2d(outputs))

    def forward(self, images: Tensor) -> Tensor:
        shortcut = images if self.downsample is None else self.downsample(images)
        hidden = self.relu(self.bn1(self.conv1(images)))
        hidden = self.relu(self.bn2(self.conv2(hidden)))
        hidden = self.bn3(self.conv3(hidden))
        hidden += shortcut
        result: Tensor = self.relu(hidden)
        return result


class ResNet50(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, padding=1)
        inputs = 64
        for number, (blocks, width, stride) in enumerate(LAYERS, 1):
            layer = [Bottleneck(inputs, width, stride, project=True)]
            inputs = width * EXPANSION
            layer += [Bottleneck(inputs, width, 1, project=False) for _ in range(blocks - 1)]
            setattr(self, f"layer{number}", nn.Sequential(*layer))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(inputs, classes)

    def forward(self, images: Tensor) -> Tensor:
        hidden = self.maxpool(self.relu(self.bn1(self.conv1(images))))
        for number in range(1, len(LAYERS) + 1):
            hidden = getattr(self, f"layer{number}")(hidden)
        answers: Tensor = self.fc(self.avgpool(hidden).flatten(1))
        return answers
