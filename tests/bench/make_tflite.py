#!/usr/bin/env python3
"""Writes a benchmark network as .tflite, for LiteRT.js.

    python3 tests/bench/make_tflite.py IN.onnx OUT.tflite

Understands exactly the operators of make_networks.py: in float, or as the QOperator file that the
package quantized, whose integers and scales are carried over one by one (uint8 activations become
int8 by moving the zero point by 128). Activations are stored channels-last. The input keeps its type
float32 and is [1, H, W, 3].

A strided convolution of the ONNX file pads both sides alike, TensorFlow's SAME pads more at the end:
these networks take the same time, their outputs differ.

File format: FlatBuffers (https://flatbuffers.dev/internals/) with the schema of TensorFlow Lite
(tensorflow/lite/schema/schema.fbs, version 3); the numbers below are its enums and field ids.
"""

import struct
import sys

import numpy as np
import onnx
from onnx import numpy_helper

FLOAT32, INT32, INT8 = 0, 2, 9
ADD, CONV, DEPTHWISE, DEQUANTIZE, FULLY_CONNECTED, MAX_POOL, MEAN, QUANTIZE = 0, 3, 4, 6, 9, 17, 40, 114
# Kinds of builtin options.
CONV_O, DEPTHWISE_O, POOL_O, FULLY_CONNECTED_O, ADD_O, REDUCER_O = 1, 2, 5, 8, 11, 27
NO_ACT, RELU, RELU6 = 0, 1, 3
SAME, VALID = 0, 1


class Table:
    """Fields by id: (struct code, value), or a Table, bytes, str, array or list of Tables."""

    def __init__(self, **fields):
        self.fields = {int(key[1:]): value for key, value in fields.items() if value is not None}


class Writer:
    """Writes from the root on: referenced data follows its field, as FlatBuffers requires."""

    def __init__(self):
        self.out = bytearray()

    def align(self, size, at=0):
        while (len(self.out) + at) % size:
            self.out.append(0)

    def file(self, root, identifier):
        self.out += struct.pack("<I4s", 0, identifier)
        self.refer(0, root)
        return bytes(self.out)

    def refer(self, place, value):
        """Writes the value and lets the offset at `place` point to it."""
        start = self.write(value)
        struct.pack_into("<I", self.out, place, start - place)

    def write(self, value):
        if isinstance(value, Table):
            return self.table(value)
        if isinstance(value, str):
            self.align(4)
            start, data = len(self.out), value.encode()
            self.out += struct.pack("<I", len(data)) + data + b"\0"
            return start
        if isinstance(value, list):
            self.align(4)
            start = len(self.out)
            self.out += struct.pack("<I", len(value)) + bytes(4 * len(value))
            for at, item in enumerate(value):
                self.refer(start + 4 + 4 * at, item)
            return start
        # A vector of numbers; constants need 16 bytes of alignment after the length.
        self.align(16, 4)
        start = len(self.out)
        self.out += struct.pack("<I", len(value)) + value.tobytes()
        return start

    def table(self, table):
        places, size = {}, 4
        # Large fields first: nothing to pad between them, as the table starts at 4 modulo 8.
        order = sorted(table.fields, key=lambda id: -self.size(table.fields[id]))
        for id in order:
            width = self.size(table.fields[id])
            size += -(size + 4) % width
            places[id] = size
            size += width
        last = max(places, default=-1)
        vtable = struct.pack("<HH", 4 + 2 * (last + 1), size)
        vtable += b"".join(struct.pack("<H", places.get(id, 0)) for id in range(last + 1))
        self.align(2)
        at_vtable = len(self.out)
        self.out += vtable
        self.align(8, 4)
        start = len(self.out)
        self.out += struct.pack("<i", start - at_vtable) + bytes(size - 4)
        for id in order:
            value = table.fields[id]
            if isinstance(value, tuple):
                struct.pack_into("<" + value[0], self.out, start + places[id], value[1])
            else:
                self.refer(start + places[id], value)
        return start

    @staticmethod
    def size(value):
        return struct.calcsize(value[0]) if isinstance(value, tuple) else 4


class Model:
    """Tensors and operators of the one subgraph."""

    def __init__(self):
        self.buffers = [Table()]  # number 0 is "no data"
        self.codes, self.tensors, self.operators = [], [], []

    def tensor(self, name, shape, type, data=None, scale=None, zero=None, axis=0):
        buffer = 0
        if data is not None:
            buffer = len(self.buffers)
            self.buffers.append(Table(_0=np.frombuffer(data.tobytes(), np.uint8)))
        quantization = None
        if scale is not None:
            quantization = Table(
                _2=np.atleast_1d(np.asarray(scale, np.float32)),
                _3=np.atleast_1d(np.asarray(zero, np.int64)),
                _6=("i", axis),
            )
        self.tensors.append(Table(
            _0=np.asarray(shape, np.int32), _1=("b", type), _2=("I", buffer), _3=name,
            _4=quantization,
        ))
        return len(self.tensors) - 1

    def operator(self, code, inputs, output, kind=0, options=None):
        if code not in self.codes:
            self.codes.append(code)
        self.operators.append(Table(
            _0=("I", self.codes.index(code)), _1=np.asarray(inputs, np.int32),
            _2=np.asarray([output], np.int32), _3=("B", kind) if kind else None, _4=options,
        ))

    def save(self, path, inputs, outputs):
        version = {CONV: 3, DEPTHWISE: 3, FULLY_CONNECTED: 4, ADD: 2, MAX_POOL: 2, MEAN: 2,
                   DEQUANTIZE: 2, QUANTIZE: 1}
        codes = [Table(_0=("b", code), _2=("i", version[code]), _3=("i", code)) for code in self.codes]
        graph = Table(
            _0=self.tensors, _1=np.asarray(inputs, np.int32), _2=np.asarray(outputs, np.int32),
            _3=self.operators, _4="main",
        )
        root = Table(_0=("I", 3), _1=codes, _2=[graph], _3="benchmark", _4=self.buffers)
        with open(path, "wb") as out:
            out.write(Writer().file(root, b"TFL3"))


class Converter:
    def __init__(self, graph):
        self.graph = graph
        self.model = Model()
        self.constants = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
        for node in graph.node:
            if node.op_type == "Constant":
                self.constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
        self.users = {}
        for node in graph.node:
            for name in node.input:
                self.users.setdefault(name, []).append(node)
        self.known = {}  # value -> (tensor, shape channels-last)
        self.skip = set()

    def fused(self, node):
        """The activation that follows, and the name of the value after it."""
        output = node.output[0]
        users = self.users.get(output, [])
        if len(users) == 1 and users[0].op_type in ("Relu", "Clip"):
            after = users[0]
            self.skip.add(after.output[0])
            if after.op_type == "Clip":
                assert [float(self.constants[name]) for name in after.input[1:]] == [0, 6]
            return RELU if after.op_type == "Relu" else RELU6, after.output[0]
        return NO_ACT, output

    def result(self, name, shape, scale=None, zero=None):
        if scale is None:
            tensor = self.model.tensor(name, shape, FLOAT32)
        else:
            scale, zero = self.constants[scale], int(self.constants[zero]) - 128
            tensor = self.model.tensor(name, shape, INT8, None, scale, zero)
        self.known[name] = (tensor, shape)
        return tensor

    def convolution(self, node, weights, bias, attributes, scales, output, act):
        """`scales`: those of the input and of the weights, for a quantized layer."""
        source, (batch, height, width, channels) = self.known[node.input[0]]
        groups, (down, right) = attributes.get("group", 1), attributes["strides"]
        kernel = weights.shape[2:]
        assert attributes["pads"] == [size // 2 for size in kernel] * 2
        depthwise = groups == channels and groups > 1
        assert depthwise or groups == 1
        # The layout is HWIO for depthwise convolutions, OHWI otherwise.
        stored = weights.transpose(1, 2, 3, 0) if depthwise else weights.transpose(0, 2, 3, 1)
        w, b = self.parameters(node.input[0] + "/conv", stored, bias, scales, 3 if depthwise else 0)
        shape = (batch, -(-height // down), -(-width // right), weights.shape[0])
        padding = ("b", SAME)
        common = {"_1": ("i", right), "_2": ("i", down)}
        if depthwise:
            options = Table(_0=padding, **common, _3=("i", 1), _4=("b", act), _5=("i", 1), _6=("i", 1))
        else:
            options = Table(_0=padding, **common, _3=("b", act), _4=("i", 1), _5=("i", 1))
        target = self.result(output[0], shape, *output[1:])
        code, kind = (DEPTHWISE, DEPTHWISE_O) if depthwise else (CONV, CONV_O)
        self.model.operator(code, [source, w, b], target, kind, options)

    def parameters(self, name, weights, bias, scales, axis):
        if scales is None:
            w = self.model.tensor(name + "/w", weights.shape, FLOAT32, weights.astype(np.float32))
            return w, self.model.tensor(name + "/b", bias.shape, FLOAT32, bias.astype(np.float32))
        assert weights.dtype == np.int8 and bias.dtype == np.int32
        of_weights = np.broadcast_to(np.atleast_1d(scales[1]), bias.shape)
        zeros = np.zeros(len(bias), np.int64)
        w = self.model.tensor(name + "/w", weights.shape, INT8, weights, of_weights, zeros, axis)
        scale = of_weights * np.float32(scales[0])
        return w, self.model.tensor(name + "/b", bias.shape, INT32, bias, scale, zeros)

    def dense(self, node, weights, bias, scales, output):
        source, shape = self.known[node.input[0]]
        w, b = self.parameters(node.input[0] + "/dense", weights, bias, scales, 0)
        target = self.result(output[0], (shape[0], weights.shape[0]), *output[1:])
        options = Table(_0=("b", NO_ACT), _1=("b", 0))
        self.model.operator(FULLY_CONNECTED, [source, w, b], target, FULLY_CONNECTED_O, options)

    def mean(self, node, output):
        source, shape = self.known[node.input[0]]
        axes = self.model.tensor(node.output[0] + "/axes", [2], INT32, np.asarray([1, 2], np.int32))
        target = self.result(output[0], (shape[0], shape[3]), *output[1:])
        self.model.operator(MEAN, [source, axes], target, REDUCER_O, Table(_0=("?", False)))

    def add(self, left, right, output, act):
        (a, shape), (b, _) = self.known[left], self.known[right]
        target = self.result(output[0], shape, *output[1:])
        self.model.operator(ADD, [a, b], target, ADD_O, Table(_0=("b", act)))

    def pool(self, node, attributes):
        source, (batch, height, width, channels) = self.known[node.input[0]]
        assert attributes["kernel_shape"] == [3, 3] and attributes["strides"] == [2, 2]
        shape = (batch, -(-height // 2), -(-width // 2), channels)
        scale = self.scale_of.get(node.input[0], ())
        target = self.result(node.output[0], shape, *scale)
        if scale:
            self.scale_of[node.output[0]] = scale
        options = Table(_0=("b", SAME), _1=("i", 2), _2=("i", 2), _3=("i", 3), _4=("i", 3), _5=("b", 0))
        self.model.operator(MAX_POOL, [source], target, POOL_O, options)

    def node(self, node):
        i, o, c = list(node.input), node.output[0], self.constants
        attributes = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
        # Names of the scale and zero point of quantized values.
        self.scale_of = getattr(self, "scale_of", {})
        op = node.op_type
        if op == "Constant" or o in self.skip:
            return
        if op == "Conv":
            act, name = self.fused(node)
            self.convolution(node, c[i[1]], c[i[2]], attributes, None, (name,), act)
        elif op == "Gemm":
            assert attributes["transB"] == 1
            self.dense(node, c[i[1]], c[i[2]], None, (o,))
        elif op == "Add":
            act, name = self.fused(node)
            self.add(i[0], i[1], (name,), act)
        elif op == "GlobalAveragePool":
            self.mean(node, (o,))
        elif op == "MaxPool":
            self.pool(node, attributes)
        elif op == "Flatten":
            self.known[o] = self.known[i[0]]
        elif op == "QuantizeLinear":
            source, shape = self.known[i[0]]
            self.model.operator(QUANTIZE, [source], self.result(o, shape, i[1], i[2]))
        elif op == "DequantizeLinear":
            source, shape = self.known[i[0]]
            self.model.operator(DEQUANTIZE, [source], self.result(o, shape))
        elif op == "QLinearConv":
            self.scale_of[o] = (i[6], i[7])
            scales = (c[i[1]], c[i[4]])
            self.convolution(node, c[i[3]], c[i[8]], attributes, scales, (o, i[6], i[7]), NO_ACT)
        elif op == "QGemm":
            scales = (c[i[1]], c[i[4]])
            self.dense(node, c[i[3]], c[i[6]], scales, (o, i[7], i[8]))
        elif op == "QLinearAdd":
            self.scale_of[o] = (i[6], i[7])
            self.add(i[0], i[3], (o, i[6], i[7]), NO_ACT)
        elif op == "QLinearGlobalAveragePool":
            self.mean(node, (o, i[3], i[4]))
        else:
            sys.exit(f"make_tflite: operator {op} is not known")

    def run(self, path):
        source = self.graph.input[0]
        n, ch, h, w = (dim.dim_value for dim in source.type.tensor_type.shape.dim)
        self.result(source.name, (n, h, w, ch))
        for node in self.graph.node:
            self.node(node)
        output = self.graph.output[0].name
        self.model.save(path, [self.known[source.name][0]], [self.known[output][0]])


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    Converter(onnx.load(sys.argv[1]).graph).run(sys.argv[2])
