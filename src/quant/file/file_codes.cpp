// Reads which codes of their bytes the parameters of a file use. Q/DQ cannot express this, so our
// exports say it in the file's metadata (ops/quantized/qonnx.h).
#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "base/str_cat.h"
#include "ops/quantized/qonnx.h"
#include "quant/file/grid_writer.h"
#include "quant/grid/affine.h"
#include "quant/quantizer.h"

namespace requant {
namespace {

bool Holds(const Tensor& integers, int64_t low, int64_t high) {
  for (int64_t i = 0; i < integers.count(); ++i) {
    const int64_t code = integers.AsInt64(i);
    if (code < low || code > high) return false;
  }
  return true;
}

bool IsBipolar(const Tensor& integers) {
  for (int64_t i = 0; i < integers.count(); ++i) {
    const int64_t code = integers.AsInt64(i);
    if (code != 1 && code != -1) return false;
  }
  return integers.dtype() == DType::kInt8;
}

}  // namespace

std::string CodesText(const TensorQuantizationConfig& config, int64_t shift) {
  const bool bipolar = config.bipolar();
  return StrCat(" ", bipolar ? 1 : config.quant_min - shift, " ",
                bipolar ? -1 : config.quant_max - shift, "\n");
}

void ReadFileCodes(QuantizedModel& model) {
  const auto entry = model.float_graph.metadata.find(kCodesKey);
  if (entry == model.float_graph.metadata.end()) return;
  const std::string lines = std::move(entry->second);
  model.float_graph.metadata.erase(entry);
  for (size_t at = 0; at < lines.size();) {
    const size_t end = std::min(lines.find('\n', at), lines.size());
    const std::string line = lines.substr(at, end - at);
    at = end + 1;
    const size_t last = line.rfind(' ');
    if (last == std::string::npos || last == 0) continue;
    const size_t first = line.rfind(' ', last - 1);
    if (first == std::string::npos || first == 0) continue;
    const std::string name = line.substr(0, first);
    const int64_t low = std::atoi(line.c_str() + first);
    const int64_t high = std::atoi(line.c_str() + last);
    for (TensorQuantizationConfig& config : model.record.configs) {
      if (config.value != name || config.baked.empty() || !IsByte(config.dtype)) continue;
      if (low == 1 && high == -1 && config.symmetric() && IsBipolar(config.baked)) {
        config.bits = 1;
        config.quant_min = -1;
        config.quant_max = 1;
      }
      if (low < StorageMin(config.dtype) || high > StorageMax(config.dtype) || low >= high)
        continue;
      if (!Holds(config.baked, low, high)) continue;
      config.quant_min = low;
      config.quant_max = high;
      config.bits = 1;
      while ((int64_t{1} << config.bits) - 1 < high - low) ++config.bits;
    }
  }
}

}  // namespace requant
