#!/usr/bin/env python3
"""Evaluates fashion_mnist.onnx with NumPy only: the judge of the exported file.

Knows just the operators of that network, each written from its ONNX specification
(https://onnx.ai/onnx/operators/), in float32 like the graph. As a program it prints the accuracy of
the file on the 10,000 test images of Fashion-MNIST and on the first 1,000 of them.
"""

import argparse
import pathlib
import sys

import numpy as np
import onnx
from onnx import numpy_helper

HERE = pathlib.Path(__file__).resolve().parent


def conv(x, w, bias=None, *, strides, pads, group=1, dilations=(1, 1), **_):
    if tuple(dilations) != (1, 1):
        raise NotImplementedError("Conv with dilations")
    x = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    # [n, channel, out_y, out_x, kernel_y, kernel_x]
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))
    windows = windows[:, :, ::strides[0], ::strides[1]]
    n, channels, out_y, out_x = windows.shape[:4]
    per_group_in, per_group_out = channels // group, w.shape[0] // group
    y = np.empty((n, w.shape[0], out_y, out_x), np.float32)
    for g in range(group):
        part = windows[:, g * per_group_in:(g + 1) * per_group_in]
        part = part.transpose(0, 2, 3, 1, 4, 5).reshape(n * out_y * out_x, -1)
        outputs = slice(g * per_group_out, (g + 1) * per_group_out)
        product = part @ w[outputs].reshape(per_group_out, -1).T
        y[:, outputs] = product.reshape(n, out_y, out_x, per_group_out).transpose(0, 3, 1, 2)
    return y if bias is None else y + bias[:, None, None]


def batch_normalization(x, scale, bias, mean, var, *, epsilon=1e-5, **_):
    def per_channel(values):
        return values[:, None, None]

    root = np.sqrt(per_channel(var) + np.float32(epsilon))
    return (x - per_channel(mean)) / root * per_channel(scale) + per_channel(bias)


def gemm(a, b, c=None, *, alpha=1.0, beta=1.0, transA=0, transB=0):
    y = np.float32(alpha) * ((a.T if transA else a) @ (b.T if transB else b))
    return y if c is None else y + np.float32(beta) * c


def flatten(x, *, axis=1):
    return x.reshape(int(np.prod(x.shape[:axis], dtype=np.int64)), -1)


OPERATORS = {
    "Add": lambda a, b: a + b,
    "BatchNormalization": batch_normalization,
    "Conv": conv,
    "Flatten": flatten,
    "Gemm": gemm,
    "GlobalAveragePool": lambda x: x.mean(axis=(2, 3), keepdims=True),
    "Identity": lambda x: x,
    "Relu": lambda x: np.maximum(x, 0),
}


def run_model(model, feeds):
    """Returns the graph outputs of a loaded ONNX model for `feeds`, both by name."""
    values = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    values.update(feeds)
    for node in model.graph.node:
        if node.op_type not in OPERATORS:
            raise NotImplementedError(f"{node.name}: operator {node.op_type}")
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        inputs = [values[name] if name else None for name in node.input]
        values[node.output[0]] = OPERATORS[node.op_type](*inputs, **attributes)
    return {output.name: values[output.name] for output in model.graph.output}


def main():
    sys.path.insert(0, str(HERE.parent / "data"))
    from idx import DEBIAN_DIR, load_split

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default=HERE / "fashion_mnist.onnx")
    parser.add_argument("--source", default=DEBIAN_DIR, help="folder of the four .gz files")
    args = parser.parse_args()
    model = onnx.load(str(args.model))
    images, labels = load_split(args.source, "t10k")
    hits = []
    for start in range(0, len(images), 100):
        batch = images[start:start + 100, None].astype(np.float32) / 255
        logits = run_model(model, {"image": batch})["logits"]
        hits.append(logits.argmax(axis=1) == labels[start:start + 100])
    hits = np.concatenate(hits)
    print(f"first 1,000: {hits[:1000].sum()} right = {hits[:1000].mean():.4f}")
    print(f"all {len(hits)}: {hits.sum()} right = {hits.mean():.4f}")


if __name__ == "__main__":
    main()
