"""Trains an ONNX network in PyTorch, as tests/bench/training_speed.mjs does with this package.

    python3 tests/bench/training_torch.py MODEL.onnx --batch 32 --fake-quantize 8

Every convolution gets a BatchNorm2d behind it, as `train()` gives it one. With --fake-quantize N, weights are
rounded to N bits per channel and the inputs of convolutions and products to N bits per tensor, with the scales of
the batch, by `torch.fake_quantize_per_*_affine`; a float copy answers first, as the teacher of the distillation.

For every line on stdin the script trains one batch of random images and prints its seconds. One thread.
"""
import argparse
import sys
import time

import numpy
import onnx
import onnx.numpy_helper
import torch
from torch.nn import functional


class Network(torch.nn.Module):
    """The nodes of a graph, one after the other."""

    def __init__(self, graph, bits):
        super().__init__()
        self.graph, self.bits = graph, bits
        self.constants = {one.name: torch.from_numpy(onnx.numpy_helper.to_array(one).copy())
                          for one in graph.initializer}
        self.weights, self.norms = torch.nn.ParameterDict(), torch.nn.ModuleDict()
        for at, node in enumerate(graph.node):
            if node.op_type == 'Constant':
                self.constants[node.output[0]] = torch.from_numpy(
                    onnx.numpy_helper.to_array(node.attribute[0].t).copy())
            if node.op_type in ('Conv', 'Gemm', 'MatMul'):
                self.weights[f'w{at}'] = torch.nn.Parameter(self.constants[node.input[1]])
            if node.op_type == 'Conv':
                self.norms[f'n{at}'] = torch.nn.BatchNorm2d(self.constants[node.input[1]].shape[0])
            elif node.op_type == 'Gemm' and len(node.input) > 2:
                self.weights[f'b{at}'] = torch.nn.Parameter(self.constants[node.input[2]])

    def quantized(self, x, per_channel=False):
        if self.bits == 0:
            return x
        most = 2 ** (self.bits - 1) - 1
        with torch.no_grad():
            if per_channel:
                scale = x.abs().amax(dim=tuple(range(1, x.dim()))).clamp(min=1e-6) / most
            else:
                low, high = x.aminmax()
                scale = ((high.clamp(min=0) - low.clamp(max=0)) / (2 * most + 1)).clamp(min=1e-6)
                zero = (-most - 1 - low.clamp(max=0) / scale).round().to(torch.int32)
        if per_channel:
            zeros = torch.zeros(len(scale), dtype=torch.int32)
            return torch.fake_quantize_per_channel_affine(x, scale, zeros, 0, -most - 1, most)
        return torch.fake_quantize_per_tensor_affine(x, scale, zero, -most - 1, most)

    def forward(self, feed):
        values = {self.graph.input[0].name: feed}
        get = lambda name: values[name] if name in values else self.constants[name]
        for at, node in enumerate(self.graph.node):
            attributes = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
            kind = node.op_type
            if kind == 'Constant':
                continue
            x = get(node.input[0])
            if kind == 'Conv':
                w = self.quantized(self.weights[f'w{at}'], True)
                pads = attributes.get('pads', [0, 0, 0, 0])
                x = self.quantized(x)
                if pads[:2] != pads[2:]:
                    x, pads = functional.pad(x, (pads[1], pads[3], pads[0], pads[2])), [0, 0]
                y = functional.conv2d(x, w, None, attributes.get('strides', [1, 1]), pads[:2], 1,
                                      attributes.get('group', 1))
                y = self.norms[f'n{at}'](y)
            elif kind == 'Gemm':
                w = self.quantized(self.weights[f'w{at}'], True)
                w = w if attributes.get('transB', 0) else w.t()
                y = functional.linear(self.quantized(x), w, self.weights[f'b{at}'])
            elif kind == 'MatMul':
                y = self.quantized(x) @ self.quantized(self.weights[f'w{at}'], True)
            elif kind == 'Relu':
                y = functional.relu(x)
            elif kind == 'Clip':
                y = x.clamp(float(get(node.input[1])), float(get(node.input[2])))
            elif kind == 'Add':
                y = x + get(node.input[1])
            elif kind == 'GlobalAveragePool':
                y = x.mean(dim=(2, 3), keepdim=True)
            elif kind == 'AveragePool':
                y = functional.avg_pool2d(x, attributes['kernel_shape'], attributes.get('strides', [1, 1]))
            elif kind == 'MaxPool':
                y = functional.max_pool2d(x, attributes['kernel_shape'], attributes.get('strides', [1, 1]),
                                          attributes.get('pads', [0, 0])[:2])
            elif kind == 'ReduceMean':
                axes = attributes.get('axes') or get(node.input[1]).tolist()
                y = x.mean(dim=tuple(axes), keepdim=bool(attributes.get('keepdims', 1)))
            elif kind == 'Concat':
                y = torch.cat([get(name) for name in node.input], attributes['axis'])
            elif kind == 'Slice':
                starts, ends, axes, steps = (get(name).tolist() for name in node.input[1:5])
                index = [slice(None)] * x.dim()
                for start, end, axis, step in zip(starts, ends, axes, steps):
                    index[axis] = slice(start, end, step)
                y = x[tuple(index)]
            elif kind == 'Pad':
                pads = get(node.input[1]).tolist()
                y = functional.pad(x, [pads[at] for axis in reversed(range(x.dim())) for at in (axis, axis + x.dim())])
            elif kind in ('Flatten', 'Reshape', 'Squeeze'):
                y = x.flatten(1)
            elif kind == 'Transpose':
                y = x.permute(attributes['perm'])
            elif kind in ('BatchNormalization', 'Softmax', 'Identity', 'Dropout'):
                y = x  # convolutions have a norm already, and the loss a softmax
            else:
                raise NotImplementedError(kind)
            values[node.output[0]] = y
        return values[self.graph.output[0].name].flatten(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('model')
    parser.add_argument('--batch', type=int, default=32)
    parser.add_argument('--fake-quantize', type=int, default=0)
    parser.add_argument('--threads', type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    graph = onnx.load(arguments.model).graph
    network = Network(graph, arguments.fake_quantize).train()
    teacher = Network(graph, 0).eval() if arguments.fake_quantize else None
    optimizer = torch.optim.Adam(network.parameters(), 1e-4)
    shape = [max(1, one.dim_value) for one in graph.input[0].type.tensor_type.shape.dim]
    images = torch.from_numpy(numpy.random.default_rng(1).random([arguments.batch] + shape[1:], numpy.float32))
    labels = torch.arange(arguments.batch) % 10
    print('ready', flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        optimizer.zero_grad()
        if teacher:
            with torch.no_grad():
                answers = functional.log_softmax(teacher(images), 1)
            scores = functional.log_softmax(network(images), 1)
            loss = functional.kl_div(scores, answers, log_target=True, reduction='batchmean')
        else:
            loss = functional.cross_entropy(network(images), labels)
        loss.backward()
        optimizer.step()
        print(time.perf_counter() - start, flush=True)


main()
