#!/usr/bin/env python3
"""Writes single layers as models of integer convolutions of few bits, for bitserial.mjs.

    python3 tests/bench/make_layers.py FOLDER

One file for each form, FOLDER/layers.<form>.onnx: `a<bits>w<bits>` as QLinearConv from and to uint8 codes
that a Clip has limited (8 bits: no Clip), as in a network of such layers; weights of one bit {-1, 1}, of two {-2 .. 1},
of four {-8 .. 7}; `f32` as Conv. Every layer of LAYERS is a branch of its own with input "x<index>" (NCHW). Needs onnx and numpy.
"""

import os
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

# height = width, input channels, output channels, kernel, stride
RESNET18 = [
    (56, 64, 64, 3, 1),
    (56, 64, 128, 3, 2),
    (28, 128, 128, 3, 1),
    (28, 128, 256, 3, 2),
    (14, 256, 256, 3, 1),
    (14, 256, 512, 3, 2),
    (7, 512, 512, 3, 1),
]
MOBILENET = [
    (56, 24, 144, 1, 1),
    (28, 192, 32, 1, 1),
    (14, 64, 384, 1, 1),
    (14, 576, 96, 1, 1),
    (7, 160, 960, 1, 1),
    (7, 320, 1280, 1, 1),
]
# Depthwise layers: every channel is a group.
DEPTHWISE = [
    (112, 32, 32, 3, 1),
    (112, 96, 96, 3, 2),
    (56, 144, 144, 3, 1),
    (56, 144, 144, 3, 2),
    (28, 192, 192, 3, 1),
    (28, 192, 192, 3, 2),
    (14, 384, 384, 3, 1),
    (14, 576, 576, 3, 1),
    (14, 576, 576, 3, 2),
    (7, 960, 960, 3, 1),
]
LAYERS = [(*layer, False) for layer in RESNET18 + MOBILENET] + [
    (*layer, True) for layer in DEPTHWISE
]
FORMS = {
    "a1w1": (1, 1),
    "a2w1": (2, 1),
    "a2w2": (2, 2),
    "a4w2": (4, 2),
    "a4w4": (4, 4),
    "a8w4": (8, 4),
    "a8w8": (8, 8),
    "f32": None,
}


def codes(random, bits, shape):
    if bits == 1:
        return (2 * random.integers(0, 2, shape) - 1).astype(np.int8)
    return random.integers(-(1 << (bits - 1)), 1 << (bits - 1), shape).astype(np.int8)


def output_scale(depth, bits):
    """The scale at which two standard deviations of sums of random codes take half of the codes."""
    deviation = 2 ** (bits[0] + bits[1] - 2) * np.sqrt(depth) / 3
    return 2 * deviation / 2 ** (bits[0] - 1)


def main(folder):
    for form, bits in FORMS.items():
        random = np.random.default_rng(1)
        nodes, inputs, outputs, constants = [], [], [], []

        def constant(name, value):
            constants.append(numpy_helper.from_array(np.asarray(value), name))
            return name

        for index, (size, in_c, out_c, kernel, stride, depthwise) in enumerate(LAYERS):
            pad = kernel // 2
            groups = in_c if depthwise else 1
            kind = f"{in_c} depthwise" if depthwise else f"{in_c} -> {out_c}, {kernel} x {kernel}"
            window = {
                "group": groups,
                "kernel_shape": [kernel, kernel],
                "strides": [stride, stride],
                "pads": [pad] * 4,
                "name": f"{size} x {size} x {kind} / {stride}",
            }
            out_size = (size + 2 * pad - kernel) // stride + 1
            x, y, shape = f"x{index}", f"y{index}", (out_c, in_c // groups, kernel, kernel)
            dtype = TensorProto.FLOAT if bits is None else TensorProto.UINT8
            inputs.append(helper.make_tensor_value_info(x, dtype, [1, in_c, size, size]))
            outputs.append(helper.make_tensor_value_info(y, dtype, [1, out_c, out_size, out_size]))
            if bits is None:
                weights = constant(f"w{index}", random.normal(0, 0.05, shape).astype(np.float32))
                nodes.append(helper.make_node("Conv", [x, weights], [y], **window))
                continue
            result = y
            if bits[0] < 8:
                limits = [
                    constant(f"{x}_lo", np.uint8(0)),
                    constant(f"{x}_hi", np.uint8((1 << bits[0]) - 1)),
                ]
                nodes.append(helper.make_node("Clip", [x, *limits], [f"{x}_clipped"]))
                x = f"{x}_clipped"
                result = f"{y}_wide"
            scale = constant(f"s{index}", np.float32(1))
            zero = constant(f"z{index}", np.uint8(0))
            parameters = [
                scale,
                zero,
                constant(f"w{index}", codes(random, bits[1], shape)),
                scale,
                constant(f"wz{index}", np.int8(0)),
                constant(f"ys{index}", np.float32(output_scale(in_c // groups * kernel**2, bits))),
                constant(f"yz{index}", np.uint8(128 if bits[0] == 8 else 0)),
            ]
            nodes.append(helper.make_node("QLinearConv", [x, *parameters], [result], **window))
            if bits[0] < 8:
                nodes.append(helper.make_node("Clip", [result, *limits], [y]))
        graph = helper.make_graph(nodes, "layers", inputs, outputs, constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
        model.ir_version = 8
        save(model, os.path.join(folder, f"layers.{form}.onnx"))


main(sys.argv[1])
