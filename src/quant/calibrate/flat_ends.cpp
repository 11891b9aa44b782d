#include "quant/calibrate/flat_ends.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "quant/assign/table_region.h"

namespace requant {
namespace {

constexpr int64_t kPoints = 4096;
constexpr double kFlat = 0.25;  // share of a step of the results

/// The operators that end the regions which read the value; none if anything else reads it.
std::set<const OperatorQuantization*> TablesOf(const Value& value,
                                               const QuantizationRecord& record) {
  std::set<const OperatorQuantization*> ends;
  for (const Node* reader : value.consumers) {
    const OperatorQuantization* op = record.Find(reader->name);
    if (op && !op->absorbed_by.empty()) op = record.Find(op->absorbed_by);
    if (op == nullptr || !op->quantized || op->table_input != value.name) return {};
    ends.insert(op);
  }
  return ends;
}

bool SharesScale(const QuantizationRecord& record, int index) {
  const std::string& value = record.configs[static_cast<size_t>(index)].value;
  for (size_t i = 0; i < record.configs.size(); ++i) {
    if (record.RootIndex(static_cast<int>(i)) == index && record.configs[i].value != value) {
      return true;
    }
  }
  return false;
}

/// The number of leading results that lie within `flat` of the last of them.
size_t FlatStart(const std::vector<double>& results, double flat) {
  double least = results[0];
  double most = results[0];
  size_t count = 0;
  for (size_t i = 0; i < results.size() && most - least <= 2 * flat; ++i) {
    least = std::min(least, results[i]);
    most = std::max(most, results[i]);
    if (results[i] - least <= flat && most - results[i] <= flat) count = i + 1;
  }
  return count;
}

}  // namespace

Range WithoutFlatEnds(const Graph& graph, const QuantizationRecord& record, int index,
                      const Range& range) {
  const TensorQuantizationConfig& config = record.configs[static_cast<size_t>(index)];
  const Value* value = graph.FindValue(config.value);
  if (value == nullptr || graph.IsOutput(value) || config.per_channel() || config.exponential() ||
      !(range.min < range.max)) {
    return range;
  }
  const auto tables = TablesOf(*value, record);
  if (tables.empty() || SharesScale(record, index)) return range;
  const double step = (range.max - range.min) / static_cast<double>(kPoints - 1);
  Tensor points(DType::kFloat32, {kPoints});
  for (int64_t i = 0; i < kPoints; ++i) {
    points.data<float>()[i] = static_cast<float>(range.min + static_cast<double>(i) * step);
  }
  auto below = static_cast<size_t>(kPoints);  // number of points that may be cut off at either end
  size_t above = below;
  for (const OperatorQuantization* op : tables) {
    const TensorQuantizationConfig& output = record.Root(op->outputs[0]);
    if (output.exponential()) return range;
    const Tensor made = EvaluateRegion(graph, *op, points);
    std::vector<double> results(made.data<float>(), made.data<float>() + kPoints);
    const auto [least, most] = std::minmax_element(results.begin(), results.end());
    const double codes = static_cast<double>(output.quant_max) - output.quant_min;
    const double flat = kFlat * (*most - *least) / codes;
    if (!std::isfinite(flat) || flat <= 0) return range;
    below = std::min(below, FlatStart(results, flat));
    std::reverse(results.begin(), results.end());
    above = std::min(above, FlatStart(results, flat));
  }
  if (below + above + 2 > static_cast<size_t>(kPoints)) return range;
  // The last of the flat points represents the others. Zero points are rounded, so the outermost
  // codes may be half a step off, and must lie in the flat part as well.
  Range kept = range;
  if (below > 1) kept.min += static_cast<double>(below - 1) * step;
  if (above > 1) kept.max -= static_cast<double>(above - 1) * step;
  const double own_step =
      (kept.max - kept.min) / (static_cast<double>(config.quant_max) - config.quant_min);
  return {std::max(range.min, kept.min - own_step), std::min(range.max, kept.max + own_step)};
}

}  // namespace requant
