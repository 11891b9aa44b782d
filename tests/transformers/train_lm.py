#!/usr/bin/env python3
"""Trains a small language model on the King James Bible and writes it as ONNX.

    python3 tests/transformers/train_lm.py [--folder build/trained] [--steps 1500] [--threads 1]

Needs Debian's packages python3-torch, python3-onnx and bible-kjv (--bible PROGRAM names the program
where it is not installed, --data its folder); libopenblas0 makes it ten times as fast. Writes
lm.onnx, and lm_test.txt and lm_train.txt, the text that was not shown and that was: of every 20
pieces of 4,096 characters the last one is for tests. Prints the perplexity on the former.

A token is a character (its ASCII code). The network is a Llama (Touvron et al., arXiv:2302.13971)
of 2.4 million parameters: four layers of width 256, four heads of 64 with two for keys and values,
rotary positions, RMSNorm, SwiGLU of 512. The file is written operator by operator in the form of
exports by optimum at opset 14, eager attention and decomposed norms, without a past: "input_ids"
and "attention_mask" [batch, sequence] (int64), "logits" [batch, sequence, 128].
"""

import argparse
import math
import os
import subprocess
import time

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

SEED = 7
VOCABULARY, WIDTH, LAYERS, HEADS, KV_HEADS, SIZE, HIDDEN = 128, 256, 4, 4, 2, 64, 512
LENGTH = 128
EPSILON = 1e-5
PIECE, EVERY = 4096, 20


def read_text(program, data):
    command = [program, "-l9999"] + (["-p", data] if data else []) + ["gen1:1-rev22:21"]
    text = subprocess.run(command, check=True, capture_output=True).stdout.decode("ascii")
    return "\n".join(line.strip() for line in text.split("\n") if line.strip())


def divided(text):
    pieces = [text[at:at + PIECE] for at in range(0, len(text), PIECE)]
    test = [piece for at, piece in enumerate(pieces) if at % EVERY == EVERY - 1]
    train = [piece for at, piece in enumerate(pieces) if at % EVERY != EVERY - 1]
    return "".join(train), "".join(test)


def rotary(length):
    angles = torch.arange(length)[:, None] / 10000 ** (torch.arange(0, SIZE, 2) / SIZE)
    both = torch.cat([angles, angles], 1)
    return both.cos(), both.sin()


class RMSNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPSILON))


def linear(inputs, outputs, deviation):
    layer = nn.Linear(inputs, outputs, bias=False)
    nn.init.normal_(layer.weight, std=deviation)
    return layer


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        small = 0.04 / math.sqrt(2 * LAYERS)
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(), RMSNorm()
        self.q_proj = linear(WIDTH, HEADS * SIZE, 0.04)
        self.k_proj = linear(WIDTH, KV_HEADS * SIZE, 0.04)
        self.v_proj = linear(WIDTH, KV_HEADS * SIZE, 0.04)
        self.o_proj = linear(HEADS * SIZE, WIDTH, small)
        self.gate_proj = linear(WIDTH, HIDDEN, 0.04)
        self.up_proj = linear(WIDTH, HIDDEN, 0.04)
        self.down_proj = linear(HIDDEN, WIDTH, small)

    def forward(self, x, cos, sin, mask):
        batch, length, _ = x.shape

        def heads(t, count):
            return t.view(batch, length, count, SIZE).transpose(1, 2)

        def rotated(t):
            return t * cos + torch.cat([-t[..., SIZE // 2:], t[..., :SIZE // 2]], -1) * sin

        def repeated(t):
            return t.repeat_interleave(HEADS // KV_HEADS, 1)

        y = self.input_layernorm(x)
        q = rotated(heads(self.q_proj(y), HEADS))
        k = repeated(rotated(heads(self.k_proj(y), KV_HEADS)))
        v = repeated(heads(self.v_proj(y), KV_HEADS))
        scores = q @ k.transpose(-1, -2) * SIZE ** -0.5 + mask
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, HEADS * SIZE)
        x = x + self.o_proj(mixed)
        y = self.post_attention_layernorm(x)
        return x + self.down_proj(nn.functional.silu(self.gate_proj(y)) * self.up_proj(y))


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCABULARY, WIDTH)
        nn.init.normal_(self.embed_tokens.weight, std=0.5)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = RMSNorm()
        self.lm_head = linear(WIDTH, VOCABULARY, 0.04)

    def forward(self, tokens):
        cos, sin = rotary(tokens.size(1))
        mask = torch.full((tokens.size(1), tokens.size(1)), -1e9).triu(1)
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x, cos, sin, mask)
        return self.lm_head(self.norm(x))


class Writer:
    """Collects nodes and constants; a call adds a node and returns the name of its result."""

    def __init__(self):
        self.nodes, self.constants, self.known = [], [], {}

    def weight(self, name, values):
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def constant(self, values, dtype=np.int64):
        values = np.asarray(values, dtype)
        key = (values.tobytes(), values.shape, str(values.dtype))
        if key not in self.known:
            self.known[key] = f"constant_{len(self.known)}"
            self.constants.append(numpy_helper.from_array(values, self.known[key]))
        return self.known[key]

    def __call__(self, kind, inputs, result=None, name=None, **attributes):
        result = result or f"{name or f'/{kind}_{len(self.nodes)}'}_output_0"
        self.nodes.append(helper.make_node(
            kind, inputs, [result], name=name or f"/{kind}_{len(self.nodes)}", **attributes))
        return result


def export(network, path):
    w = Writer()
    weights = {name: values.detach().numpy() for name, values in network.named_parameters()}

    def number(value):
        return w.constant(value, np.float32)

    def dimension(value, axis):
        return w("Gather", [w("Shape", [value]), w.constant(axis)], axis=0)

    def row(value):
        return w("Unsqueeze", [value, w.constant([0])])

    def shape(*parts):
        return w("Concat", [p if isinstance(p, str) else w.constant([p]) for p in parts], axis=0)

    def product(x, name, result=None):
        return w("MatMul", [x, w.weight(name + ".weight", weights[name + ".weight"].T)], result,
                 "/" + name.replace(".", "/") + "/MatMul")

    def norm(x, name):
        mean = w("ReduceMean", [w("Pow", [x, number(2)])], axes=[-1])
        factor = w("Div", [number(1), w("Sqrt", [w("Add", [mean, number(EPSILON)])])])
        scaled = w("Mul", [x, factor])
        return w("Mul", [w.weight(name + ".weight", weights[name + ".weight"]), scaled])

    batch, length = row(dimension("input_ids", 0)), row(dimension("input_ids", 1))
    scalar = dimension("input_ids", 1)
    lowest = float(np.finfo(np.float32).min)
    places = w("Range", [w.constant(0), scalar, w.constant(1)])
    later = w("Greater", [places, w("Reshape", [places, w.constant([-1, 1])])])
    full = w("ConstantOfShape", [shape(length, length)],
             value=numpy_helper.from_array(np.array([lowest], np.float32)))
    causal = w("Mul", [full, w("Cast", [later], to=TensorProto.FLOAT)])
    causal = w("Expand", [w("Unsqueeze", [causal, w.constant([0, 1])]),
                          shape(batch, 1, length, length)])
    given = w("Cast", [w("Unsqueeze", ["attention_mask", w.constant([1, 2])])],
              to=TensorProto.FLOAT)
    padded = w("Equal", [w("Add", [causal, given]), number(0)])
    mask = w("Where", [padded, number(lowest), causal])
    frequencies = (1 / 10000 ** (np.arange(0, SIZE, 2) / SIZE)).astype(np.float32)
    angles = w("Mul", [
        w("Cast", [w("Reshape", [places, w.constant([-1, 1])])], to=TensorProto.FLOAT),
        w.weight("inv_freq", frequencies[None])])
    both = w("Concat", [angles, angles], axis=-1)
    cos, sin = (w("Unsqueeze", [w(kind, [both]), w.constant([0, 1])]) for kind in ("Cos", "Sin"))

    def part(x, begin, end):
        return w("Slice", [x, *(w.constant([v]) for v in (begin, end, 3, 1))])

    def rotated(x):
        turned = w("Concat", [w("Neg", [part(x, SIZE // 2, 2**63 - 1)]), part(x, 0, SIZE // 2)],
                   axis=-1)
        return w("Add", [w("Mul", [x, cos]), w("Mul", [turned, sin])])

    def heads(x, count):
        return w("Transpose", [w("Reshape", [x, shape(batch, length, count, SIZE)])],
                 perm=[0, 2, 1, 3])

    def repeated(x):
        wide = w("Expand", [w("Unsqueeze", [x, w.constant([2])]),
                            shape(batch, KV_HEADS, HEADS // KV_HEADS, length, SIZE)])
        return w("Reshape", [wide, shape(batch, HEADS, length, SIZE)])

    x = w("Gather", [w.weight("embed_tokens.weight", weights["embed_tokens.weight"]), "input_ids"],
          name="/embed_tokens/Gather")
    for layer in range(LAYERS):
        prefix = f"layers.{layer}."
        y = norm(x, prefix + "input_layernorm")
        q = rotated(heads(product(y, prefix + "q_proj"), HEADS))
        k = repeated(rotated(heads(product(y, prefix + "k_proj"), KV_HEADS)))
        v = repeated(heads(product(y, prefix + "v_proj"), KV_HEADS))
        scores = w("Mul", [w("MatMul", [q, w("Transpose", [k], perm=[0, 1, 3, 2])]),
                           number(SIZE ** -0.5)])
        shares = w("Softmax", [w("Add", [scores, mask])], axis=-1)
        mixed = w("Transpose", [w("MatMul", [shares, v])], perm=[0, 2, 1, 3])
        mixed = w("Reshape", [mixed, shape(batch, length, HEADS * SIZE)])
        x = w("Add", [x, product(mixed, prefix + "o_proj")])
        y = norm(x, prefix + "post_attention_layernorm")
        gate = product(y, prefix + "gate_proj")
        gated = w("Mul", [w("Mul", [gate, w("Sigmoid", [gate])]), product(y, prefix + "up_proj")])
        x = w("Add", [x, product(gated, prefix + "down_proj")])
    product(norm(x, "norm"), "lm_head", "logits")
    ids = [(name, TensorProto.INT64, ["batch_size", "sequence_length"])
           for name in ("input_ids", "attention_mask")]
    logits = ("logits", TensorProto.FLOAT, ["batch_size", "sequence_length", VOCABULARY])
    graph = helper.make_graph(
        w.nodes, "main_graph", [helper.make_tensor_value_info(*one) for one in ids],
        [helper.make_tensor_value_info(*logits)], w.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)],
                              producer_name="requant-tests")
    model.ir_version = 8
    onnx.checker.check_model(model)
    onnx.save(model, path)


def perplexity(network, test, windows=64):
    """Of all characters but the first one of windows that are spread over the text."""
    at = torch.arange(windows) * (len(test) // windows)
    tokens = torch.stack([test[a:a + LENGTH] for a in at])
    with torch.no_grad():
        scores = network(tokens)[:, :-1].reshape(-1, VOCABULARY)
    return math.exp(nn.functional.cross_entropy(scores, tokens[:, 1:].reshape(-1)).item())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", default="build/trained")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--bible", default="bible")
    parser.add_argument("--data")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(SEED)
    os.makedirs(options.folder, exist_ok=True)
    texts = divided(read_text(options.bible, options.data))
    for name, text in zip(("lm_train.txt", "lm_test.txt"), texts):
        with open(os.path.join(options.folder, name), "w", encoding="ascii") as file:
            file.write(text)
    train, test = (torch.tensor(list(text.encode("ascii"))) for text in texts)
    network = Llama()
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3, betas=(0.9, 0.95), weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, options.steps, pct_start=0.1)
    path = os.path.join(options.folder, "lm.onnx")
    start = time.time()
    for step in range(options.steps):
        at = torch.randint(0, len(train) - LENGTH - 1, (8,)).tolist()
        tokens = torch.stack([train[a:a + LENGTH + 1] for a in at])
        scores = network(tokens[:, :-1]).reshape(-1, VOCABULARY)
        loss = nn.functional.cross_entropy(scores, tokens[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1)
        optimizer.step()
        schedule.step()
        if (step + 1) % 50 == 0 or step + 1 == options.steps:
            print(f"step {step + 1}: loss {loss.item():.4f}, perplexity {perplexity(network, test):.4f}, "
                  f"{time.time() - start:.0f} s", flush=True)
            export(network, path)
    parameters = sum(values.numel() for values in network.parameters())
    print(f"{path}: {parameters / 1e6:.2f} million parameters", flush=True)


if __name__ == "__main__":
    main()
