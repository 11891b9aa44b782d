#!/usr/bin/env python3
"""Trains a small vision transformer on Fashion-MNIST and writes it as ONNX.

    python3 tests/transformers/train_vit.py [--folder build/trained] [--epochs 12] [--threads 1]

Needs Debian's packages python3-torch, python3-onnx and dataset-fashion-mnist; libopenblas0 makes it
ten times as fast. Writes vit.onnx: input "pixel_values" [batch, 1, 28, 28], pixels / 255, output
"logits" [batch, 10]. Prints the right answers of the 10,000 test images.

The network is a ViT (Dosovitskiy et al., arXiv:2010.11929) with the stem of three convolutions
instead of one (Xiao et al., arXiv:2106.14881): 16 patches and a class token, width 96, four layers
with four heads. Its operators are those of exports of ViT from transformers by optimum at opset 14,
with decomposed LayerNormalization and Gelu.
"""

import argparse
import gzip
import math
import os
import time

import numpy as np
import torch
from torch import nn

DATA = "/usr/share/datasets/fashion-mnist"
SEED = 7


def images(name):
    with gzip.open(os.path.join(DATA, name + "-images-idx3-ubyte.gz")) as file:
        pixels = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 1, 28, 28)
    with gzip.open(os.path.join(DATA, name + "-labels-idx1-ubyte.gz")) as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    return torch.tensor(pixels), torch.tensor(labels.astype(np.int64))


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)

    def split(self, x):
        return x.view(x.size(0), x.size(1), self.heads, self.size).permute(0, 2, 1, 3)

    def forward(self, x):
        query, key, value = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(self.size)
        mixed = torch.matmul(scores.softmax(-1), value).permute(0, 2, 1, 3).contiguous()
        return self.output(mixed.view(x.size(0), x.size(1), self.heads * self.size))


class Layer(nn.Module):
    def __init__(self, width, heads, hidden):
        super().__init__()
        self.before = nn.LayerNorm(width, eps=1e-6)
        self.attention = Attention(width, heads)
        self.after = nn.LayerNorm(width, eps=1e-6)
        self.intermediate = nn.Linear(width, hidden)
        self.output = nn.Linear(hidden, width)

    def forward(self, x):
        x = x + self.attention(self.before(x))
        return x + self.output(nn.functional.gelu(self.intermediate(self.after(x))))


class ViT(nn.Module):
    def __init__(self, width=96, layers=4, heads=4, hidden=192):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(1, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU(),
            nn.Conv2d(32, 64, 3, 2, 1), nn.BatchNorm2d(64), nn.ReLU(),
            nn.Conv2d(64, width, 3, 2, 1),
        )
        self.cls = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(0.02 * torch.randn(1, 17, width))
        self.layers = nn.ModuleList(Layer(width, heads, hidden) for _ in range(layers))
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.classifier = nn.Linear(width, 10)

    def forward(self, pixels):
        patches = self.stem(pixels).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(pixels.size(0), -1, -1), patches], 1) + self.positions
        for layer in self.layers:
            x = layer(x)
        return self.classifier(self.norm(x)[:, 0])


def mirrored(pixels):
    """Half of the images, chosen at random, are mirrored."""
    chosen = torch.rand(pixels.size(0), 1, 1, 1) < 0.5
    return torch.where(chosen, pixels.flip(-1), pixels)


def right(network, pixels, labels):
    network.eval()
    with torch.no_grad():
        answers = [network(part.float() / 255).argmax(1) for part in pixels.split(500)]
    return int((torch.cat(answers) == labels).sum())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", default="build/trained")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(SEED)
    os.makedirs(options.folder, exist_ok=True)
    pixels, labels = images("train")
    test, test_labels = images("t10k")
    network = ViT()
    batch = 128
    steps = options.epochs * (len(labels) // batch)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, steps, pct_start=0.15)
    start = time.time()
    for epoch in range(options.epochs):
        network.train()
        total = 0
        order = torch.randperm(len(labels))[:len(labels) // batch * batch]
        for chosen in order.split(batch):
            scores = network(mirrored(pixels[chosen].float() / 255))
            loss = nn.functional.cross_entropy(scores, labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * len(chosen)
        print(f"epoch {epoch + 1}: loss {total / len(order):.4f}, "
              f"{right(network, test, test_labels)} of {len(test_labels)} right, "
              f"{time.time() - start:.0f} s", flush=True)
        path = os.path.join(options.folder, "vit.onnx")
        torch.onnx.export(
            network.eval(), torch.zeros(1, 1, 28, 28), path + ".part", opset_version=14,
            input_names=["pixel_values"], output_names=["logits"],
            dynamic_axes={"pixel_values": {0: "batch"}, "logits": {0: "batch"}},
        )
        os.replace(path + ".part", path)
    parameters = sum(values.numel() for values in network.parameters())
    print(f"{path}: {parameters / 1e6:.2f} million parameters", flush=True)


if __name__ == "__main__":
    main()
