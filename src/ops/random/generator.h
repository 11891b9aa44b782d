// The generator of random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random
// numbers: as easy as 1, 2, 3, SC 2011). Number i of a stream is a function of the stream's key and
// i. All steps are exact in IEEE arithmetic, so that the numbers are the same on every machine.
#pragma once

#include <cstdint>

#include "ir/attribute.h"

namespace requant {

class RandomStream {
 public:
  /// The stream of a node. With the attribute `seed` every run draws the same numbers: the key is
  /// its bits. Without it, the key counts such streams since the engine was loaded.
  explicit RandomStream(const AttributeMap& attributes);
  RandomStream(uint32_t low, uint32_t high) : key_{low, high} {}

  /// The next 32 random bits.
  uint32_t Bits();
  /// A number in [0, 1), a multiple of 2^-32.
  double Uniform() { return Bits() * 0x1p-32; }
  /// A number of the normal distribution with mean 0 and deviation 1: its inverse of (bits + 0.5) /
  /// 2^32.
  double Normal();

 private:
  uint32_t key_[2];
  uint32_t block_[4] = {};
  uint64_t next_ = 0;
};

/// The inverse of the normal distribution function, for 0 < p < 1 (Wichura: Algorithm AS 241,
/// Applied Statistics 37, 1988, PPND16).
double InverseNormal(double p);

/// e^x by a Taylor series, for x <= 0.
double PortableExp(double x);

}  // namespace requant
