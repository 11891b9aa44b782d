#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "base/str_cat.h"
#include "quant/config/record.h"

namespace requant {
namespace {

std::string Quote(std::string_view text) {
  std::string out;
  AppendJsonString(out, text);
  return out;
}

std::string Number(double number) { return std::isfinite(number) ? StrCat(number) : "null"; }

template <typename T>
std::string List(const std::vector<T>& values) {
  std::string out = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    if (i) out += ',';
    if constexpr (std::is_floating_point_v<T>) {
      out += Number(static_cast<double>(values[i]));
    } else {
      out += StrCat(values[i]);
    }
  }
  return out + ']';
}

std::string Slot(const QuantizationRecord& record, int index) {
  if (index < 0) return "null";
  const TensorQuantizationConfig& own = record.configs[static_cast<size_t>(index)];
  const TensorQuantizationConfig& root = record.Root(index);
  std::string out =
      StrCat("{\"value\":", Quote(own.value), ",\"state\":", Quote(StateName(own.state)));
  if (!IsQuantizing(own.state)) return out + '}';
  out += StrCat(",\"policy\":", Quote(PolicyToString(root.policy)),
                ",\"rounding\":", Quote(RoundingPolicyName(root.rounding)), ",\"bits\":", root.bits,
                ",\"quantMin\":", root.quant_min, ",\"quantMax\":", root.quant_max,
                ",\"dtype\":", Quote(DTypeName(root.dtype)));
  if (root.exponential()) {
    const auto [exponent, mantissa] = root.small_float;
    out += StrCat(",\"format\":", Quote(StrCat("e", exponent, "m", mantissa)));
  }
  if (root.per_channel()) out += StrCat(",\"axis\":", root.axis);
  out += StrCat(",\"scale\":", List(root.scale));
  // Most grids per channel are symmetric; a list of zeros would only be noise.
  const bool zeros = std::all_of(root.offset.begin(), root.offset.end(),
                                 [](int32_t offset) { return offset == 0; });
  out += StrCat(",\"offset\":", root.per_channel() && zeros ? "0" : List(root.offset));
  if (root.threshold != 0) out += StrCat(",\"threshold\":", root.threshold);
  if (own.baked.empty()) {
    out += StrCat(",\"observer\":", Quote(root.observer), ",\"range\":[", Number(root.range_min),
                  ",", Number(root.range_max), "]");
    if (root.ranges_tried > 0) {
      out += StrCat(",\"detail\":\"least of ", root.ranges_tried,
                    " ranges' errors: ", root.error_percent, " % of that of least squares\"");
    }
  }
  if (&own != &root) {
    out += StrCat(",\"dominator\":{\"node\":", Quote(root.node),
                  ",\"slot\":", Quote(StrCat(root.is_output ? "output" : "input", root.slot)), "}");
  }
  return out + '}';
}

std::string Slots(const QuantizationRecord& record, const std::vector<int>& indices) {
  std::string out = "[";
  for (size_t i = 0; i < indices.size(); ++i) {
    if (i) out += ',';
    out += Slot(record, indices[i]);
  }
  return out + ']';
}

}  // namespace

std::string RecordToJson(const QuantizationRecord& record) {
  std::string out = "{\"operators\":[";
  bool first = true;
  for (const auto& [name, op] : record.operators) {
    if (!first) out += ',';
    first = false;
    out += StrCat("\n{\"name\":", Quote(name), ",\"type\":", Quote(op.op_type),
                  ",\"quantized\":", op.quantized ? "true" : "false");
    if (op.simulated) out += ",\"simulated\":true";
    if (op.float_output) out += ",\"floatOutput\":true";
    if (!op.reason.empty()) out += StrCat(",\"reason\":", Quote(op.reason));
    if (!op.activation.empty()) out += StrCat(",\"activation\":", Quote(op.activation));
    if (!op.absorbed_by.empty()) out += StrCat(",\"computedBy\":", Quote(op.absorbed_by));
    out += StrCat(",\"inputs\":", Slots(record, op.inputs),
                  ",\"outputs\":", Slots(record, op.outputs), "}");
  }
  for (const BodyOperator& op : record.in_bodies) {
    out +=
        StrCat(first ? "" : ",", "\n{\"name\":", Quote(op.name), ",\"type\":", Quote(op.op_type),
               ",\"quantized\":", op.quantized ? "true" : "false",
               ",\"inBody\":true,\"reason\":", Quote(op.reason), ",\"inputs\":[],\"outputs\":[]}");
    first = false;
  }
  out += "\n],\"recovery\":[";
  for (size_t i = 0; i < record.recovery.size(); ++i) {
    const RecoveryStep& step = record.recovery[i];
    const bool measured = step.before_db != 0 || step.after_db != 0;
    out += StrCat(i ? "," : "", "{\"method\":", Quote(step.method),
                  ",\"beforeDb\":", measured ? Number(step.before_db) : "null",
                  ",\"afterDb\":", measured ? Number(step.after_db) : "null",
                  ",\"detail\":", Quote(step.detail), "}");
  }
  out += "],\"warnings\":[";
  for (size_t i = 0; i < record.warnings.size(); ++i) {
    if (i) out += ',';
    out += Quote(record.warnings[i]);
  }
  out += ']';
  if (!record.analysis.empty()) out += StrCat(",\"analysis\":", record.analysis);
  return out + "}\n";
}

}  // namespace requant
