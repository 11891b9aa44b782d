// Combiner makes codes or floats of sums of products of 16-bit codes, for rows of channels, by the
// formula of numeric/wide.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "plan/archive.h"
#include "plan/builder.h"
#include "plan/lower/wide/codes.h"

namespace requant::wide {

/// Rows of int32 sums, `stride` apart.
struct Sums {
  const int32_t* high = nullptr;  ///< nullptr: there are none
  const int32_t* low = nullptr;
  size_t stride = 0;
};

/// Makes codes or floats of v = (256 * high + low + bias) * multiplier: a clamp of floats, or
/// RoundWide.
class Combiner {
 public:
  void Fields(PlanArchive& archive) {
    archive.Fields(channels, fits, small, floats, planes, kind, to, lo, hi, multipliers, bias);
  }
  /// Sets what the numbers of `multipliers` and `bias`, one for each channel, decide. `bound` is
  /// the largest magnitude of an exact sum, its bias included.
  void Set(std::vector<double> all_multipliers, std::vector<int32_t> all_biases, double bound);
  /// Writes `rows` rows of the channels [first, first + count), whose sums begin at `sums`. `out`
  /// and `low` are where channel 0 of the first row begins; `low` is for planes only. `first` is a
  /// multiple of 8.
  void Run(const Sums& sums, size_t rows, size_t first, size_t count, uint8_t* out,
           uint8_t* low) const;

  /// Bytes from one element of the output, or of one of its planes, to the next.
  size_t ElementBytes() const { return floats ? 4 : planes ? 1 : BytesOf(kind); }

  size_t channels = 0;
  bool fits = false;    ///< 256 * high + low + bias fits int32
  bool small = false;   ///< also, v is within kSmall, and the output is codes
  bool floats = false;  ///< the output is float32
  bool planes = false;  ///< codes of 16 bits are written as two planes, of high and of low bytes
  Kind kind = Kind::kInt16;
  WideOutput to;
  float lo = 0, hi = 0;  ///< bounds of floats
  // Padded to whole vectors of eight.
  std::vector<double> multipliers;
  std::vector<int32_t> bias;

 private:
  void RunSmall(const Sums& sums, size_t rows, size_t first, size_t count, uint8_t* out,
                uint8_t* low) const;
  void RunAny(const Sums& sums, size_t rows, size_t first, size_t count, uint8_t* out,
              uint8_t* low) const;
  /// The form of the output: whole codes of 16 bits, their low bytes (codes of 8 bits), or both
  /// planes.
  enum class Form { kWhole, kLow, kPlanes };
  Form FormOf() const {
    if (planes) return Form::kPlanes;
    return BytesOf(kind) == 1 ? Form::kLow : Form::kWhole;
  }
  static void StoreCodes(Form form, v128_t codes, size_t at, size_t count, uint8_t* out,
                         uint8_t* low);
};

/// Whether channels lie along the last axis of a CombineSums16, as behind a matrix product.
bool CombinesLast(const Node& node);
/// The numbers of a CombineSums16, without its output; nullopt for a node that its reference has to
/// compute.
std::optional<Combiner> ReadCombiner(const Node& node);

/// The slots that a step with a Combiner writes, and its operators.
struct CombinedOutput {
  std::vector<int> slots;
  std::string op;
};
/// Takes what follows `last`, whose output the combiner makes: a clamp, and SplitBytes where
/// nothing else reads the codes, so that they are written as planes. Absorbs these into `first`,
/// the step's first node, and sets the output of `combiner`.
CombinedOutput TakeOutput(PlanBuilder& builder, const Node& last, const Node& first, Layout layout,
                          Combiner& combiner);

}  // namespace requant::wide
