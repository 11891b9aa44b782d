#include "quant/weights/blocks.h"

#include <algorithm>
#include <cmath>

namespace requant {
namespace {

/// The weights of a block of one column, and how much their errors count.
struct Block {
  std::vector<float> weights;
  std::vector<double> power;
};

/// Ranges that are tried: the whole one, and smaller ones in steps of 2 %. Few bits gain by much
/// smaller ones.
int TrialsOf(int bits) { return bits < 4 ? 36 : 24; }

double ErrorOf(const Block& block, double scale, double low, double high) {
  double error = 0;
  for (size_t i = 0; i < block.weights.size(); ++i) {
    const auto w = static_cast<double>(block.weights[i]);
    const double d = w - scale * std::clamp(std::nearbyint(w / scale), low, high);
    error += block.power[i] * d * d;
  }
  return error;
}

/// The scale of least squared error with codes [-2^(b-1), 2^(b-1) - 1].
float SymmetricScale(const Block& block, int bits) {
  float extreme = 0;
  for (const float w : block.weights) {
    if (std::fabs(w) > std::fabs(extreme)) extreme = w;
  }
  if (extreme == 0 || !std::isfinite(extreme)) return 1;
  const double low = -std::ldexp(1, bits - 1);
  const auto size = static_cast<double>(std::fabs(extreme));
  double best = size / -low;
  double least = HUGE_VAL;
  for (int step = 0; step < TrialsOf(bits); ++step) {
    const double scale = size / (-low - 1) * (1.02 - 0.02 * step);
    const double error = ErrorOf(block, scale, low, -low - 1);
    if (error < least) {
      least = error;
      best = scale;
    }
  }
  return static_cast<float>(best);
}

/// The scale and the zero point of least squared error.
std::pair<float, uint8_t> AffineGrid(const Block& block, int bits) {
  float low = 0, high = 0;
  for (const float w : block.weights) {
    low = std::min(low, w);
    high = std::max(high, w);
  }
  const auto range = static_cast<double>(high) - static_cast<double>(low);
  if (!(range > 0) || !std::isfinite(range)) return {1.0F, uint8_t{0}};
  const double most = std::ldexp(1, bits) - 1;
  std::pair<float, uint8_t> best{1.0F, uint8_t{0}};
  double least = HUGE_VAL;
  for (int step = 0; step < TrialsOf(bits); ++step) {
    const auto scale = static_cast<float>(range / most * (1 - 0.02 * step));
    if (!(scale > 0)) break;
    const double middle = (most - static_cast<double>(low + high) / static_cast<double>(scale)) / 2;
    for (const double zero : {std::floor(middle), std::ceil(middle)}) {
      const double kept = std::clamp(zero, 0.0, most);
      const double error = ErrorOf(block, static_cast<double>(scale), -kept, most - kept);
      if (error < least) {
        least = error;
        best = {scale, static_cast<uint8_t>(kept)};
      }
    }
  }
  return best;
}

}  // namespace

BlockedWeights RoundToBlocks(const Product& p, const WeightOnlyOptions& options,
                             const std::vector<double>& power) {
  BlockedWeights out;
  out.k = p.k;
  out.n = p.n;
  out.block = options.block;
  out.bits = options.bits;
  out.codes.resize(static_cast<size_t>(p.k * p.n));
  const int half = 1 << (options.bits - 1);
  const int most = 2 * half - 1;
  Block block;
  for (int64_t column = 0; column < p.n; ++column) {
    for (int64_t begin = 0; begin < p.k; begin += options.block) {
      const int64_t end = std::min(p.k, begin + options.block);
      block.weights.clear();
      block.power.clear();
      for (int64_t k = begin; k < end; ++k) {
        block.weights.push_back(p.weights[column * p.n_step + k * p.k_step]);
        block.power.push_back(power.empty() ? 1 : power[static_cast<size_t>(k)]);
      }
      const auto [scale, zero] = options.symmetric ? std::pair(SymmetricScale(block, options.bits),
                                                               static_cast<uint8_t>(half))
                                                   : AffineGrid(block, options.bits);
      out.scales.push_back(scale);
      out.zeros.push_back(zero);
      for (int64_t k = begin; k < end; ++k) {
        const float steps = std::nearbyint(block.weights[static_cast<size_t>(k - begin)] / scale);
        const float code =
            std::clamp(steps, static_cast<float>(-zero), static_cast<float>(most - zero));
        out.codes[static_cast<size_t>(column * p.k + k)] =
            static_cast<uint8_t>(static_cast<int>(code) + zero);
      }
    }
  }
  return out;
}

Tensor DequantizeCodes(const Product& p, const BlockedWeights& weights, bool symmetric) {
  const bool bytes = weights.bits == 8;
  const DType dtype =
      symmetric ? (bytes ? DType::kInt8 : DType::kInt4) : (bytes ? DType::kUint8 : DType::kUint4);
  Tensor codes(dtype, p.tensor->shape());
  auto* to = static_cast<uint8_t*>(codes.raw());
  for (int64_t column = 0; column < p.n; ++column) {
    for (int64_t k = 0; k < p.k; ++k) {
      const int64_t at = column * p.n_step + k * p.k_step;
      int code = weights.codes[static_cast<size_t>(column * p.k + k)];
      if (symmetric) code -= weights.zeros[weights.BlockOf(column, k)];
      if (bytes) {
        to[at] = static_cast<uint8_t>(code);
      } else {
        to[at / 2] |= static_cast<uint8_t>((code & 15) << (at % 2 * 4));
      }
    }
  }
  return codes;
}

namespace {

Shape ShapeOfBlocks(const Product& p, const BlockedWeights& weights) {
  Shape shape = p.tensor->shape();
  shape[static_cast<size_t>(p.axis)] = weights.blocks();
  return shape;
}

/// The place of a column's block among the scales of a DequantizeLinear.
int64_t PlaceOf(const Product& p, const BlockedWeights& weights, int64_t column, int64_t block) {
  return p.axis == 0 ? block * p.n + column : column * weights.blocks() + block;
}

/// Writes a code of few bits behind others without gaps.
void PutBits(uint8_t* to, int64_t index, int bits, int code) {
  const int64_t bit = index * bits;
  const int shifted = code << (bit % 8);
  to[bit / 8] |= static_cast<uint8_t>(shifted);
  if (bit % 8 + bits > 8) to[bit / 8 + 1] |= static_cast<uint8_t>(shifted >> 8);
}

}  // namespace

Tensor DequantizeScales(const Product& p, const BlockedWeights& weights) {
  Tensor scales(DType::kFloat32, ShapeOfBlocks(p, weights));
  for (int64_t column = 0; column < p.n; ++column) {
    for (int64_t block = 0; block < weights.blocks(); ++block) {
      scales.data<float>()[PlaceOf(p, weights, column, block)] =
          weights.scales[static_cast<size_t>(column * weights.blocks() + block)];
    }
  }
  return scales;
}

Tensor DequantizeZeros(const Product& p, const BlockedWeights& weights) {
  const bool bytes = weights.bits == 8;
  Tensor zeros(bytes ? DType::kUint8 : DType::kUint4, ShapeOfBlocks(p, weights));
  auto* to = static_cast<uint8_t*>(zeros.raw());
  for (int64_t column = 0; column < p.n; ++column) {
    for (int64_t block = 0; block < weights.blocks(); ++block) {
      const int64_t at = PlaceOf(p, weights, column, block);
      const int zero = weights.zeros[static_cast<size_t>(column * weights.blocks() + block)];
      if (bytes) {
        to[at] = static_cast<uint8_t>(zero);
      } else {
        to[at / 2] |= static_cast<uint8_t>(zero << (at % 2 * 4));
      }
    }
  }
  return zeros;
}

Tensor PackedCodes(const BlockedWeights& weights) {
  const int64_t blob = weights.block * weights.bits / 8;
  const int64_t blocks = weights.blocks();
  Tensor codes(DType::kUint8, {weights.n, blocks, blob});
  for (int64_t column = 0; column < weights.n; ++column) {
    for (int64_t k = 0; k < blocks * weights.block; ++k) {
      uint8_t* to = codes.data<uint8_t>() + (column * blocks + k / weights.block) * blob;
      // Codes behind the last row stand for 0.
      const int code = k < weights.k ? weights.codes[static_cast<size_t>(column * weights.k + k)]
                                     : weights.zeros[weights.BlockOf(column, k)];
      PutBits(to, k % weights.block, weights.bits, code);
    }
  }
  return codes;
}

Tensor PackedScales(const BlockedWeights& weights) {
  Tensor scales(DType::kFloat32, {weights.n * weights.blocks()});
  std::copy(weights.scales.begin(), weights.scales.end(), scales.data<float>());
  return scales;
}

Tensor PackedZeros(const BlockedWeights& weights) {
  const int64_t bytes = (weights.blocks() * weights.bits + 7) / 8;
  Tensor zeros(DType::kUint8, {weights.n * bytes});
  for (int64_t column = 0; column < weights.n; ++column) {
    for (int64_t block = 0; block < weights.blocks(); ++block) {
      PutBits(zeros.data<uint8_t>() + column * bytes, block, weights.bits,
              weights.zeros[static_cast<size_t>(column * weights.blocks() + block)]);
    }
  }
  return zeros;
}

}  // namespace requant
