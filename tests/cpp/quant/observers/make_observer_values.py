"""Expected values of observer_torch_test.cpp: PyTorch's observers on the same numbers.

Run by hand with python3-torch; writes observer_values.h next to itself.
"""

import os

import torch
from torch.ao.quantization.observer import (
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    PerChannelMinMaxObserver,
)

SAMPLES, CHANNELS, LENGTH = 5, 3, 40


def numbers():
    """The same sequence as in the test: a linear congruential generator, as floats."""
    state = 12345
    out = []
    for sample in range(SAMPLES):
        for i in range(CHANNELS * LENGTH):
            state = (state * 1664525 + 1013904223) % 2**32
            channel = i // LENGTH
            # Exact in float32: 16 bits times a power of two.
            value = ((state >> 16) - 32768) * 2.0 ** (channel - 13) + (sample - 1) * 0.25
            out.append(value)
    return torch.tensor(out, dtype=torch.float64).float().reshape(SAMPLES, 1, CHANNELS, LENGTH)


def rows():
    data = numbers()
    affine = dict(dtype=torch.quint8, qscheme=torch.per_tensor_affine)
    symmetric = dict(dtype=torch.qint8, qscheme=torch.per_tensor_symmetric)
    per_channel = dict(dtype=torch.qint8, qscheme=torch.per_channel_symmetric, ch_axis=1)
    observers = {
        "minmax_affine": MinMaxObserver(**affine),
        "minmax_symmetric": MinMaxObserver(**symmetric),
        "moving_affine": MovingAverageMinMaxObserver(averaging_constant=0.25, **affine),
        "per_channel": PerChannelMinMaxObserver(**per_channel),
        "moving_per_channel": MovingAveragePerChannelMinMaxObserver(
            averaging_constant=0.25, **per_channel
        ),
    }
    for name, observer in observers.items():
        for sample in data:
            observer(sample)
        scale, zero_point = observer.calculate_qparams()
        low, high = observer.min_val.reshape(-1), observer.max_val.reshape(-1)
        for channel in range(len(low)):
            yield name, channel, low[channel], high[channel], scale[channel], zero_point[channel]


def main():
    lines = [
        "// Made by make_observer_values.py with PyTorch: do not edit.",
        "#pragma once",
        "",
        "namespace requant {",
        "",
        "struct TorchRow {",
        "  const char* observer;",
        "  int channel;",
        "  float min, max, scale;",
        "  int zero_point;",
        "};",
        "",
        "inline constexpr TorchRow kTorchRows[] = {",
    ]
    for name, channel, low, high, scale, zero_point in rows():
        values = ", ".join(f"{float(v).hex()}f" for v in (low, high, scale))
        lines.append(f'    {{"{name}", {channel}, {values}, {int(zero_point)}}},')
    lines += ["};", "", "}  // namespace requant", ""]
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "observer_values.h")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines))


main()
