// Made by make_observer_values.py with PyTorch: do not edit.
#pragma once

namespace requant {

struct TorchRow {
  const char* observer;
  int channel;
  float min, max, scale;
  int zero_point;
};

inline constexpr TorchRow kTorchRows[] = {
    {"minmax_affine", 0, -0x1.021c000000000p+4f, 0x1.0600000000000p+4f, 0x1.0513140000000p-3f, 127},
    {"minmax_symmetric", 0, -0x1.021c000000000p+4f, 0x1.0600000000000p+4f, 0x1.0707080000000p-3f,
     0},
    {"moving_affine", 0, -0x1.ec51200000000p+3f, 0x1.009a440000000p+4f, 0x1.f8bb900000000p-4f, 125},
    {"per_channel", 0, -0x1.0c62000000000p+2f, 0x1.2a78000000000p+2f, 0x1.2ba3a40000000p-5f, 0},
    {"per_channel", 1, -0x1.fec0000000000p+2f, 0x1.0ddc000000000p+3f, 0x1.0eeaea0000000p-4f, 0},
    {"per_channel", 2, -0x1.021c000000000p+4f, 0x1.0600000000000p+4f, 0x1.0707080000000p-3f, 0},
    {"moving_per_channel", 0, -0x1.c24a9c0000000p+1f, 0x1.05bd400000000p+2f, 0x1.06c4040000000p-5f,
     0},
    {"moving_per_channel", 1, -0x1.baed9c0000000p+2f, 0x1.efb5c80000000p+2f, 0x1.f1a7700000000p-5f,
     0},
    {"moving_per_channel", 2, -0x1.ec51200000000p+3f, 0x1.009a440000000p+4f, 0x1.019be00000000p-3f,
     0},
};

}  // namespace requant
