#!/usr/bin/env python3
"""Trains the demo network on Fashion-MNIST and writes fashion_mnist.onnx.

Needs Debian's python3-torch, python3-numpy, python3-onnx and dataset-fashion-mnist. Runs on one CPU
core. The network kept is the one after the last epoch: no epoch is picked by its test accuracy.
"""

import argparse
import pathlib
import sys
import time

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "data"))
from idx import DEBIAN_DIR, load_split  # noqa: E402
from numpy_onnx import run_model  # noqa: E402

SEED = 1
BATCH = 128
PEAK_RATE = 0.2
WARM_UP = 0.15  # share of all steps in which the rate rises linearly
MOMENTUM = 0.9
WEIGHT_DECAY = 5e-4
LABEL_SMOOTHING = 0.05
MAX_SHIFT = 2
MIN_ACCURACY = 0.92
MAX_ONNX_BYTES = 360 * 1024


def conv_bn(inputs, outputs, kernel, stride=1, groups=1):
    """A convolution without bias and its BatchNorm; padding keeps the size at stride 1."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    )


class BasicBlock(nn.Module):
    """Two dense 3x3 convolutions around an identity shortcut (He et al., arXiv:1512.03385)."""

    def __init__(self, channels):
        super().__init__()
        self.conv1 = conv_bn(channels, channels, 3)
        self.conv2 = conv_bn(channels, channels, 3)

    def forward(self, x):
        return F.relu(x + self.conv2(F.relu(self.conv1(x))))


class InvertedBlock(nn.Module):
    """1x1 expand, 3x3 depthwise, linear 1x1 project, shortcut (arXiv:1801.04381)."""

    def __init__(self, channels, expanded):
        super().__init__()
        self.expand = conv_bn(channels, expanded, 1)
        self.depthwise = conv_bn(expanded, expanded, 3, groups=expanded)
        self.project = conv_bn(expanded, channels, 1)

    def forward(self, x):
        y = F.relu(self.expand(x))
        y = F.relu(self.depthwise(y))
        return x + self.project(y)


class FashionNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = conv_bn(1, 16, 3)
        self.down1 = conv_bn(16, 32, 3, stride=2)
        self.block1 = BasicBlock(32)
        self.down2 = conv_bn(32, 64, 3, stride=2)
        self.block2 = InvertedBlock(64, 128)
        self.block3 = InvertedBlock(64, 128)
        self.head = nn.Linear(64, 10)

    def forward(self, image):
        x = F.relu(self.stem(image))
        x = F.relu(self.down1(x))
        x = self.block1(x)
        x = F.relu(self.down2(x))
        x = self.block3(self.block2(x))
        x = F.adaptive_avg_pool2d(F.relu(x), 1)
        return self.head(torch.flatten(x, 1))


def augment(images, generator):
    """Random horizontal flip and a shift of up to MAX_SHIFT pixels, each image its own."""
    n, _, height, width = images.shape
    padded = F.pad(images, [MAX_SHIFT] * 4)
    dy = torch.randint(0, 2 * MAX_SHIFT + 1, (n, 1, 1), generator=generator)
    dx = torch.randint(0, 2 * MAX_SHIFT + 1, (n, 1, 1), generator=generator)
    flip = torch.rand((n, 1, 1), generator=generator) < 0.5
    columns = torch.arange(width).view(1, 1, width)
    columns = torch.where(flip, width - 1 - columns, columns) + dx
    rows = torch.arange(height).view(1, height, 1) + dy
    return padded[torch.arange(n).view(n, 1, 1), 0, rows, columns].unsqueeze(1)


def learning_rate(step, steps):
    """Linear warm-up, then cosine to zero (arXiv:1608.03983)."""
    warm_up = WARM_UP * steps
    if step < warm_up:
        return PEAK_RATE * (step + 1) / warm_up
    return PEAK_RATE * 0.5 * (1 + np.cos(np.pi * (step - warm_up) / (steps - warm_up)))


def predict(model, images):
    model.eval()
    with torch.no_grad():
        return torch.cat([model(part) for part in images.split(500)])


def train(model, train_data, test_data, epochs, max_steps=None):
    images, labels = train_data
    generator = torch.Generator().manual_seed(SEED)
    # Weight decay on weights only: decaying BatchNorm scales and biases only harms (1812.01187).
    decayed = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    optimizer = torch.optim.SGD(
        [{"params": decayed, "weight_decay": WEIGHT_DECAY}, {"params": others}],
        lr=PEAK_RATE, momentum=MOMENTUM, nesterov=True)
    per_epoch = len(images) // BATCH
    start = time.time()
    accuracy = 0.0
    for epoch in range(epochs):
        model.train()
        order = torch.randperm(len(images), generator=generator)
        total = 0.0
        for step in range(per_epoch):
            rate = learning_rate(epoch * per_epoch + step, epochs * per_epoch)
            for group in optimizer.param_groups:
                group["lr"] = rate
            chosen = order[step * BATCH:(step + 1) * BATCH]
            logits = model(augment(images[chosen], generator))
            loss = F.cross_entropy(logits, labels[chosen], label_smoothing=LABEL_SMOOTHING)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total += loss.item()
            if max_steps and step + 1 >= max_steps:
                print(f"{(time.time() - start) / max_steps * per_epoch:.1f} s per epoch")
                return accuracy
        hits = predict(model, test_data[0]).argmax(1) == test_data[1]
        accuracy = hits.double().mean().item()
        print(f"epoch {epoch + 1:2d}/{epochs} loss {total / per_epoch:.4f} "
              f"test {accuracy:.4f} elapsed {time.time() - start:.0f} s", flush=True)
    return accuracy


def export(model, path):
    model.eval()
    # PRESERVE, not EVAL: with EVAL torch 1.13 fuses each Conv with its BatchNorm while exporting,
    # and the demo is meant to show that Requant does this folding itself.
    torch.onnx.export(
        model, torch.zeros(2, 1, 28, 28), str(path), opset_version=13,
        training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False,
        keep_initializers_as_inputs=False, input_names=["image"], output_names=["logits"],
        dynamic_axes={"image": {0: "N"}, "logits": {0: "N"}})


def check_export(model, path, images):
    """Checks the file itself: valid, as promised, and equal to torch under another evaluator."""
    loaded = onnx.load(str(path))
    onnx.checker.check_model(loaded, full_check=True)
    graph = loaded.graph
    ops = {}
    for node in graph.node:
        ops[node.op_type] = ops.get(node.op_type, 0) + 1
    print("nodes:", ops, "bytes:", path.stat().st_size)
    batch_norms = sum(isinstance(m, nn.BatchNorm2d) for m in model.modules())
    if ops.get("BatchNormalization", 0) != batch_norms:
        raise RuntimeError("BatchNormalization nodes were folded by the exporter")
    for node in graph.node:
        if node.op_type == "BatchNormalization" and len(node.output) != 1:
            raise RuntimeError(f"{node.name}: exported in training form")
    if [i.name for i in graph.input] != ["image"] or [o.name for o in graph.output] != ["logits"]:
        raise RuntimeError("unexpected graph inputs or outputs")
    if graph.input[0].type.tensor_type.shape.dim[0].dim_param != "N":
        raise RuntimeError("the batch dimension is not the symbol N")
    if loaded.opset_import[0].version != 13 or path.stat().st_size > MAX_ONNX_BYTES:
        raise RuntimeError("wrong opset, or the file is too large")
    expected = predict(model, images).numpy()
    got = run_model(loaded, {"image": images.numpy()})["logits"]
    difference = float(np.abs(expected - got).max())
    print(f"largest difference of logits, torch and NumPy evaluator: {difference:.2e}")
    if difference > 1e-3:
        raise RuntimeError("the exported graph does not compute what torch computes")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", default=DEBIAN_DIR, help="folder of the four .gz files")
    parser.add_argument("--out", default=HERE / "fashion_mnist.onnx", type=pathlib.Path)
    parser.add_argument("--epochs", default=20, type=int)
    parser.add_argument("--measure", action="store_true", help="time 30 steps, write nothing")
    args = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    torch.use_deterministic_algorithms(True)

    def tensors(split):
        images, labels = load_split(args.source, split)
        scaled = torch.from_numpy(images.astype(np.float32) / 255).unsqueeze(1)
        return scaled, torch.from_numpy(labels.astype(np.int64))

    train_data, test_data = tensors("train"), tensors("t10k")
    model = FashionNet()
    print("parameters:", sum(p.numel() for p in model.parameters()), flush=True)
    accuracy = train(model, train_data, test_data, args.epochs, 30 if args.measure else None)
    if args.measure:
        return
    print(f"final test accuracy {accuracy:.4f}")
    assert accuracy >= MIN_ACCURACY, f"{accuracy:.4f} is below {MIN_ACCURACY}"
    export(model, args.out)
    check_export(model, args.out, test_data[0][:64])


if __name__ == "__main__":
    main()
