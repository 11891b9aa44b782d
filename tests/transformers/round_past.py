#!/usr/bin/env python3
"""Writes a copy of the language model of train_lm.py whose keys and values are rounded as a past in 8 bits is.

    python3 tests/transformers/round_past.py [FOLDER]        lm.onnx -> lm_past8.onnx; FOLDER: build/trained

Every token of every head becomes round(x / s) * s with s = max|x| / 127 (src/kernels/token_codes/kernel.h). A model
without a past then computes what a decoder with such a past does, but that it rounds the newest token, too.
"""

import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper


def rounded(name, x):
    """The nodes that round x along its last axis, and their result."""
    parts = {part: f"{name}/{part}" for part in ("abs", "most", "scale", "ratio", "codes", "y")}
    nodes = [
        helper.make_node("Abs", [x], [parts["abs"]]),
        helper.make_node("ReduceMax", [parts["abs"]], [parts["most"]], axes=[-1], keepdims=1),
        helper.make_node("Div", [parts["most"], "past_127"], [parts["scale"]]),
        helper.make_node("Div", [x, parts["scale"]], [parts["ratio"]]),
        helper.make_node("Round", [parts["ratio"]], [parts["codes"]]),
        helper.make_node("Mul", [parts["codes"], parts["scale"]], [parts["y"]]),
    ]
    return nodes, parts["y"]


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "build/trained"
    model = onnx.load(f"{folder}/lm.onnx")
    graph = model.graph
    reshaped = {node.input[0] for node in graph.node if node.op_type == "Reshape"}
    expanded = {
        node.input[0]
        for node in graph.node
        if node.op_type == "Expand" and node.output[0] in reshaped
    }
    nodes, found = [], 0
    for node in graph.node:
        # Heads of keys and values are repeated for groups of queries: Unsqueeze, Expand, Reshape.
        if node.op_type == "Unsqueeze" and node.output[0] in expanded:
            made, node.input[0] = rounded(f"past_{found}", node.input[0])
            nodes += made
            found += 1
        nodes.append(node)
    layers = sum(node.op_type == "Softmax" for node in graph.node)
    if found != 2 * layers:
        raise SystemExit(f"found {found} keys and values in {layers} layers")
    del graph.node[:]
    graph.node.extend(nodes)
    graph.initializer.append(numpy_helper.from_array(np.float32(127), "past_127"))
    onnx.checker.check_model(model)
    onnx.save(model, f"{folder}/lm_past8.onnx")


main()
