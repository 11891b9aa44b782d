// Descriptions of models, plans and tables as JSON (bindings/README.md).
#include <algorithm>

#include "api/json.h"
#include "api/passes.h"
#include "api/prepare.h"
#include "base/json.h"
#include "ir/text.h"
#include "kernels/list.h"
#include "passes/pass.h"
#include "passes/shape/infer_type.h"

namespace requant {
namespace {

void WriteMeta(JsonWriter& json, const Value& value) {
  json.BeginObject();
  json.Key("name").String(value.name);
  json.Key("type").String(DTypeName(value.type.dtype));
  json.Key("dims").BeginArray();
  if (value.type.shape) {
    for (const Dim& dim : *value.type.shape) {
      if (dim.known()) {
        json.Int(dim.value);
      } else if (dim.symbol.empty()) {
        json.Null();
      } else {
        json.String(dim.symbol);
      }
    }
  }
  json.EndArray().EndObject();
}

void WriteNames(JsonWriter& json, const std::vector<Value*>& values) {
  json.BeginArray();
  for (const Value* value : values) json.String(value ? value->name : "");
  json.EndArray();
}

const char* RuleName(QuantRule rule) {
  switch (rule) {
    case QuantRule::kFloat:
      return "float";
    case QuantRule::kConv:
    case QuantRule::kMatMul:
      return "weighted";
    case QuantRule::kAdd:
    case QuantRule::kMul:
      return "arithmetic";
    case QuantRule::kConcat:
      return "concat";
    case QuantRule::kAveragePool:
      return "average";
    case QuantRule::kUnary:
      return "table";
    case QuantRule::kPassive:
      return "passive";
    case QuantRule::kShape:
      break;
  }
  return "shape";
}

}  // namespace

std::string ModelInfoJson(const Graph& graph) {
  JsonWriter json;
  json.BeginObject();
  json.Key("name").String(graph.name);
  json.Key("opsets").BeginObject();
  for (const auto& [domain, version] : graph.opsets) {
    json.Key(domain.empty() ? "ai.onnx" : domain).Int(version);
  }
  json.EndObject();
  json.Key("inputs").BeginArray();
  for (const Value* input : graph.inputs()) {
    if (!input->is_constant()) WriteMeta(json, *input);
  }
  json.EndArray();
  json.Key("outputs").BeginArray();
  for (const Value* output : graph.outputs()) WriteMeta(json, *output);
  json.EndArray();
  json.Key("nodes").BeginArray();
  for (const auto& node : graph.nodes()) {
    json.BeginObject();
    json.Key("name").String(node->name);
    json.Key("op").String(node->op_type);
    json.Key("domain").String(node->domain);
    json.Key("inputs");
    WriteNames(json, node->inputs);
    json.Key("outputs");
    WriteNames(json, node->outputs);
    json.EndObject();
  }
  json.EndArray();
  int64_t parameters = 0;
  int64_t bytes = 0;
  for (const auto& value : graph.values()) {
    if (!value->is_constant()) continue;
    parameters += value->constant.count();
    bytes += static_cast<int64_t>(value->constant.bytes());
  }
  json.Key("parameters").Int(parameters);
  json.Key("constantBytes").Int(bytes);
  json.Key("quantized").Bool(IsQuantized(graph));
  json.EndObject();
  return json.text();
}

std::string PlanJson(const Plan* plan) {
  JsonWriter json;
  json.BeginObject();
  if (plan) {
    json.Key("steps").BeginArray();
    size_t index = 0;
    for (const auto& step : plan->steps) {
      json.BeginObject();
      json.Key("usedBytes").Int(static_cast<int64_t>(plan->used_memory[index++]));
      json.Key("name").String(step->name);
      json.Key("op").String(step->op);
      json.Key("kernel").String(step->kernel);
      if (!step->tuning.empty()) json.Key("tuning").String(step->tuning);
      json.Key("macs").Int(step->macs);
      json.Key("threads").Int(step->parts.count);
      if (step->panel() > 0) json.Key("panel").Int(step->panel());
      if (!step->outputs.empty()) {
        const Slot& slot = plan->slots[static_cast<size_t>(step->outputs[0])];
        json.Key("output").BeginObject();
        json.Key("name").String(slot.name);
        json.Key("type").String(DTypeName(slot.dtype));
        json.Key("layout").String(slot.layout == Layout::kPlain ? "plain" : "channels-last");
        if (slot.packed) json.Key("packing").String("nibbles");
        if (slot.planes != 0) json.Key("packing").String("planes");
        json.Key("dims").BeginArray();
        for (const int64_t dim : slot.shape) json.Int(dim);
        json.EndArray().EndObject();
      }
      json.EndObject();
    }
    json.EndArray();
    json.Key("memory").BeginObject();
    json.Key("arena").Int(static_cast<int64_t>(plan->arena_bytes));
    json.Key("lowerBound").Int(static_cast<int64_t>(plan->arena_lower_bound));
    json.Key("packedWeights").Int(static_cast<int64_t>(plan->packed_bytes));
    json.EndObject();
    json.Key("warnings").BeginArray();
    for (const std::string& warning : plan->warnings) json.String(warning);
    json.EndArray();
  }
  json.EndObject();
  return json.text();
}

std::string ProfileJson(const std::vector<StepProfile>& profile) {
  JsonWriter json;
  json.BeginArray();
  for (const StepProfile& step : profile) {
    json.BeginObject();
    json.Key("name").String(step.name);
    json.Key("op").String(step.op);
    json.Key("kernel").String(step.kernel);
    json.Key("milliseconds").Number(step.milliseconds);
    json.Key("runs").Int(step.runs);
    json.Key("macs").Int(step.macs);
    json.EndObject();
  }
  json.EndArray();
  return json.text();
}

std::string OptimizeToJson(Graph& graph, PipelineOptions options, bool dump) {
  JsonWriter dumps;
  dumps.BeginArray();
  if (dump) {
    options.dump = [&dumps](const char* pass, const Graph& after) {
      dumps.BeginObject();
      dumps.Key("pass").String(pass);
      dumps.Key("text").String(PrintGraph(after));
      dumps.Key("dot").String(GraphToDot(after));
      dumps.EndObject();
    };
  }
  options.more = ApiPasses();
  // Most passes need types, which a file need not have.
  const auto& only = options.only;
  if (!only.empty() && std::find(only.begin(), only.end(), "InferType") == only.end()) {
    InferTypes(graph);
  }
  const PipelineReport report = RunPasses(graph, options);
  dumps.EndArray();
  JsonWriter json;
  json.BeginObject();
  json.Key("rounds").Int(report.rounds);
  json.Key("passes").BeginArray();
  for (const PassReport& pass : report.passes) {
    json.BeginObject();
    json.Key("name").String(pass.name);
    json.Key("changed").Bool(pass.changed);
    json.Key("milliseconds").Number(pass.milliseconds);
    json.Key("nodesBefore").Int(static_cast<int64_t>(pass.nodes_before));
    json.Key("nodesAfter").Int(static_cast<int64_t>(pass.nodes_after));
    json.EndObject();
  }
  json.EndArray();
  if (dump) json.Key("dumps").Raw(dumps.text());
  json.EndObject();
  return json.text();
}

std::string OperatorsJson() {
  JsonWriter json;
  json.BeginArray();
  for (const OpDef* op : OpTable()) {
    json.BeginObject();
    json.Key("name").String(op->name);
    json.Key("domain").String(op->domain);
    json.Key("since").Int(op->since_version);
    json.Key("quantize").String(RuleName(op->quant));
    json.EndObject();
  }
  json.EndArray();
  return json.text();
}

std::string PassesJson() {
  JsonWriter json;
  json.BeginArray();
  for (const Pass* pass : AllPasses(ApiPasses())) {
    json.BeginObject();
    json.Key("name").String(pass->name);
    json.Key("summary").String(pass->summary);
    json.Key("bound").Number(pass->bound);
    json.Key("optional").Bool(pass->optional());
    json.EndObject();
  }
  json.EndArray();
  return json.text();
}

std::string KernelsJson() {
  JsonWriter json;
  json.BeginArray();
  for (const KernelInfo& kernel : ListKernels()) {
    json.BeginObject();
    json.Key("family").String(kernel.family);
    json.Key("name").String(kernel.name);
    json.Key("isa").String(kernel.isa);
    if (kernel.missing != nullptr) json.Key("missing").String(kernel.missing);
    json.EndObject();
  }
  json.EndArray();
  return json.text();
}

}  // namespace requant
