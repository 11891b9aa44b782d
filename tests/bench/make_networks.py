#!/usr/bin/env python3
"""Writes the float ONNX networks of the benchmarks, with random weights.

    python3 tests/bench/make_networks.py [FOLDER, default build/bench] [NAME ...]

Needs torch and onnx (Debian: python3-torch python3-onnx). Opset 13, batch 1, input "input", output
"output"; BatchNormalization is folded into the convolutions by the exporter, as usual in files that
people have. The weights are random but sensible: every BatchNormalization gets the statistics that
its input has, so that activations keep their scale through the deepest network, no float value is
denormal, and 8 bits describe the activations about as well as those of a trained network.

ResNet: He et al., arXiv:1512.03385 (ResNet-20 is its CIFAR network, with projections as shortcuts);
the stride of a bottleneck sits in its 3x3 convolution, as everywhere since. MobileNetV2: Sandler et
al., arXiv:1801.04381, table 2.
"""

import os
import sys

import torch
from torch import nn

SEED = 7


def conv(inputs, outputs, kernel, stride=1, groups=1, act=nn.ReLU):
    """Convolution, BatchNormalization and perhaps an activation."""
    layers = [
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    return nn.Sequential(*layers, *([act()] if act else []))


class Residual(nn.Module):
    """Branch plus shortcut, then perhaps an activation."""

    def __init__(self, branch, shortcut, act):
        super().__init__()
        self.branch = branch
        self.shortcut = shortcut
        self.act = act

    def forward(self, x):
        return self.act(self.branch(x) + self.shortcut(x))


def shortcut(inputs, outputs, stride):
    if inputs == outputs and stride == 1:
        return nn.Identity()
    return conv(inputs, outputs, 1, stride, act=None)


def basic(inputs, width, stride):
    branch = nn.Sequential(conv(inputs, width, 3, stride), conv(width, width, 3, act=None))
    return Residual(branch, shortcut(inputs, width, stride), nn.ReLU()), width


def bottleneck(inputs, width, stride):
    outputs = 4 * width
    branch = nn.Sequential(
        conv(inputs, width, 1), conv(width, width, 3, stride), conv(width, outputs, 1, act=None)
    )
    return Residual(branch, shortcut(inputs, outputs, stride), nn.ReLU()), outputs


def resnet(block, depths, widths, stem, classes):
    layers, channels = list(stem), widths[0]
    for stage, (depth, width) in enumerate(zip(depths, widths)):
        for at in range(depth):
            layer, channels = block(channels, width, 2 if stage > 0 and at == 0 else 1)
            layers.append(layer)
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)]
    return nn.Sequential(*layers, *head)


def imagenet_resnet(block, depths):
    stem = [conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    return resnet(block, depths, (64, 128, 256, 512), stem, 1000)


def inverted(inputs, outputs, stride, expansion):
    hidden = inputs * expansion
    branch = nn.Sequential(
        *([conv(inputs, hidden, 1, act=nn.ReLU6)] if expansion > 1 else []),
        conv(hidden, hidden, 3, stride, groups=hidden, act=nn.ReLU6),
        conv(hidden, outputs, 1, act=None),
    )
    if stride == 1 and inputs == outputs:
        return Residual(branch, nn.Identity(), nn.Identity())
    return branch


def mobilenet_v2():
    layers, channels = [conv(3, 32, 3, 2, act=nn.ReLU6)], 32
    table = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
             (6, 160, 3, 2), (6, 320, 1, 1))
    for expansion, outputs, repeats, stride in table:
        for at in range(repeats):
            layers.append(inverted(channels, outputs, stride if at == 0 else 1, expansion))
            channels = outputs
    layers.append(conv(channels, 1280, 1, act=nn.ReLU6))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000))


NETWORKS = {
    "resnet18": (lambda: imagenet_resnet(basic, (2, 2, 2, 2)), 224),
    "resnet50": (lambda: imagenet_resnet(bottleneck, (3, 4, 6, 3)), 224),
    "mobilenet_v2": (mobilenet_v2, 224),
    "resnet20": (lambda: resnet(basic, (3, 3, 3), (16, 32, 64), [conv(3, 16, 3)], 10), 32),
}


def settle(network, size):
    """Gives every BatchNormalization the statistics of its input, and a gain and shift of its own."""
    for layer in network.modules():
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        elif isinstance(layer, nn.BatchNorm2d):
            nn.init.uniform_(layer.weight, 0.6, 1.4)
            nn.init.uniform_(layer.bias, -0.4, 0.4)
            layer.momentum = None  # the plain mean over all batches
    network.train()
    with torch.no_grad():
        for _ in range(2):
            network(torch.randn(4, 3, size, size))
    network.eval()


def main():
    arguments = sys.argv[1:]
    folder = arguments[0] if arguments else "build/bench"
    names = arguments[1:] or list(NETWORKS)
    os.makedirs(folder, exist_ok=True)
    for name in names:
        if name not in NETWORKS:
            sys.exit(f"make_networks: no network {name} ({', '.join(NETWORKS)})")
        make, size = NETWORKS[name]
        torch.manual_seed(SEED)
        network = make()
        settle(network, size)
        path = os.path.join(folder, name + ".onnx")
        torch.onnx.export(
            network, torch.randn(1, 3, size, size), path + ".part", opset_version=13,
            input_names=["input"], output_names=["output"], do_constant_folding=True,
        )
        os.replace(path + ".part", path)
        parameters = sum(values.numel() for values in network.parameters())
        print(f"{path}: {parameters / 1e6:.2f} million parameters", flush=True)


if __name__ == "__main__":
    main()
