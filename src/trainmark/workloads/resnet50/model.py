"""ResNet-50 v1.5: the stride of a down-sampling block sits in its 3 x 3 convolution. Names are torchvision's."""

from __future__ import annotations

from torch import Tensor, nn

EXPANSION = 4


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


def layer(blocks: int, inputs: int, width: int, stride: int) -> nn.Sequential:
    first = Bottleneck(inputs, width, stride, project=True)
    others = (Bottleneck(width * EXPANSION, width, 1, project=False) for _ in range(blocks - 1))
    return nn.Sequential(first, *others)


class ResNet50(nn.Module):
    """Images (N, 3, H, W) to scores of the classes. The program sets its first weights."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, padding=1)
        self.layer1 = layer(3, 64, 64, stride=1)
        self.layer2 = layer(4, 256, 128, stride=2)
        self.layer3 = layer(6, 512, 256, stride=2)
        self.layer4 = layer(3, 1024, 512, stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(2048, classes)

    def forward(self, images: Tensor) -> Tensor:
        hidden = self.maxpool(self.relu(self.bn1(self.conv1(images))))
        hidden = self.layer4(self.layer3(self.layer2(self.layer1(hidden))))
        scores: Tensor = self.fc(self.avgpool(hidden).flatten(1))
        return scores
