#include <utility>
#include <vector>

#include "api/passes.h"
#include "api/prepare.h"
#include "base/error.h"
#include "base/json.h"
#include "ops/quantized/qonnx.h"
#include "passes/runner.h"
#include "quant/graph/prepare.h"

namespace requant {
namespace {

void WriteNodes(JsonWriter& json, const char* key, const std::vector<IntegerNode>& nodes) {
  json.Key(key).BeginArray();
  for (const IntegerNode& node : nodes) {
    json.BeginObject().Key("name").String(node.name).Key("type").String(node.op);
    if (!node.reason.empty()) json.Key("reason").String(node.reason);
    json.EndObject();
  }
  json.EndArray();
}

}  // namespace

LegalizedModel LegalizedFrom(const Graph& model, const IntegerForm& form) {
  LegalizedModel out{WithFloats(model), ""};
  Graph& graph = out.graph;
  SpellQdq(graph);
  if (!IsQuantized(graph)) {
    Fail(ErrorCode::kInvalidArgument, "the model is not quantized",
         {.hint = "legalize what quantize() makes, or a quantized file"});
  }
  RaiseOpset(graph, 13);
  RunPasses(graph, {});
  PassContext context;
  if (Legalize(graph, context)) RunPasses(graph, {});
  const IntegerReport report = LegalizeToIntegers(graph, form);
  JsonWriter json;
  json.BeginObject();
  WriteNodes(json, "legalized", report.legalized);
  WriteNodes(json, "left", report.left);
  json.EndObject();
  out.report = json.text();
  return out;
}

}  // namespace requant
