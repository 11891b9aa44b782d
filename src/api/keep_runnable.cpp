// Plans a quantized model once, for inputs like those it was made with, so that its own session
// never refuses it. Before: a QLinearAdd whose operands' scales are 2^20 times its result's. After:
// Add, in float, and a warning that says why.
#include <new>

#include "api/keep_runnable.h"
#include "api/prepare.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "quant/lower/lower.h"
#include "quant/recover/choose_float/switch_off.h"
#include "session/session.h"

namespace requant {
namespace {

/// Plans the model and drops the plan: packed weights live as long as the session.
void PlanOnce(const QuantizedModel& model, const std::vector<FeedType>& feeds, bool fuse) {
  SessionOptions options;
  options.plan.fuse = fuse;
  Session session(PrepareForRun(LowerToInteger(model)), options);
  if (feeds.empty()) {
    session.Prepare();
    return;
  }
  TensorMap tensors;
  for (const FeedType& feed : feeds) tensors[feed.name] = Tensor(feed.dtype, feed.shape);
  session.PrepareFor(tensors);
}

/// The quantized operator from which a node of the integer graph was made: one of its name, or the
/// producer of the value that the name begins with. Empty if there is none.
std::string OperatorOf(const QuantizedModel& model, const std::string& node) {
  const auto quantized = [&model](const std::string& name) {
    const OperatorQuantization* op = model.record.Find(name);
    return op && op->quantized;
  };
  if (quantized(node)) return node;
  for (size_t end = node.rfind('_'); end != std::string::npos && end > 0;
       end = node.rfind('_', end - 1)) {
    std::string name = node.substr(0, end);
    if (quantized(name)) return name;
    const Value* value = model.float_graph.FindValue(name);
    if (value && value->producer && quantized(value->producer->name)) return value->producer->name;
  }
  return {};
}

struct Culprit {
  std::string name, why;
};

/// A step of several operators names only one of them; planned without fusion, the error names the
/// right one.
Culprit FindCulprit(const QuantizedModel& model, const std::vector<FeedType>& feeds,
                    const Error& error) {
  try {
    PlanOnce(model, feeds, false);
  } catch (const Error& alone) {
    const std::string name = OperatorOf(model, alone.context().node);
    if (!name.empty()) return {name, alone.message()};
  }
  return {OperatorOf(model, error.context().node), error.message()};
}

/// Keeps an operator in float, with all that it computes and that is computed with it.
void KeepInFloat(QuantizedModel& model, std::string name, const std::string& why) {
  QuantizationRecord& record = model.record;
  while (!record.operators.at(name).absorbed_by.empty()) {
    name = record.operators.at(name).absorbed_by;
  }
  const OperatorQuantization op = record.operators.at(name);
  std::vector<std::string> names = {name};
  if (!op.activation.empty()) names.push_back(op.activation);
  for (const std::string& member : op.table) {
    if (member != name) names.push_back(member);
  }
  record.warnings.push_back(StrCat("'", name, "' stays in float: ", why));
  for (const std::string& each : names) Dequantize(record, each, why);
}

}  // namespace

std::vector<FeedType> TypesOf(const TensorMap& feeds) {
  std::vector<FeedType> types;
  for (const auto& [name, tensor] : feeds) types.push_back({name, tensor.dtype(), tensor.shape()});
  return types;
}

void KeepRunnable(QuantizedModel& model, const std::vector<FeedType>& feeds) {
  for (;;) {
    try {
      return PlanOnce(model, feeds, true);
    } catch (const std::bad_alloc&) {
      return;  // memory is no property of the model
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kOutOfMemory) return;
      const Culprit culprit = FindCulprit(model, feeds, error);
      if (culprit.name.empty()) throw;
      KeepInFloat(model, culprit.name, culprit.why);
    }
  }
}

}  // namespace requant
