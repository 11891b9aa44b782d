#include "options.h"

#include <emscripten/emscripten.h>

#include "threads.h"

namespace requant::bindings {
namespace {

using emscripten::val;

bool Has(const val& object, const char* key) {
  return !object.isUndefined() && !object.isNull() && !object[key].isUndefined() &&
         !object[key].isNull();
}

template <typename T>
void Read(const val& object, const char* key, T& target) {
  if (Has(object, key)) target = object[key].as<T>();
}

std::vector<std::string> ReadStrings(const val& object, const char* key) {
  std::vector<std::string> out;
  if (!Has(object, key)) return out;
  const val list = object[key];
  const auto count = list["length"].as<unsigned>();
  for (unsigned i = 0; i < count; ++i) out.push_back(list[i].as<std::string>());
  return out;
}

/// Calls `function(key, value)` for every own property.
template <typename Function>
void ForEachProperty(const val& object, Function function) {
  const val keys = val::global("Object").call<val>("keys", object);
  const auto count = keys["length"].as<unsigned>();
  for (unsigned i = 0; i < count; ++i) {
    const auto key = keys[i].as<std::string>();
    function(key, object[key]);
  }
}

RequantizeMode ReadMode(const val& options) {
  if (!Has(options, "requantize")) return RequantizeMode::kUpward;
  const auto name = options["requantize"].as<std::string>();
  if (name == "fixed") return RequantizeMode::kUpward;
  if (name == "float") return RequantizeMode::kFloat;
  if (name == "nearest") return RequantizeMode::kToNearest;
  if (name == "gemmlowp") return RequantizeMode::kGemmlowp;
  Fail(ErrorCode::kInvalidArgument, "requantize '" + name + "' is not known",
       {.hint = "use 'fixed', 'float', 'nearest' or 'gemmlowp'"});
}

void ReadTensorSettings(const val& object, TensorSettings& settings) {
  Read(object, "bits", settings.bits);
  Read(object, "symmetric", settings.symmetric);
  Read(object, "perChannel", settings.per_channel);
  Read(object, "observer", settings.observer);
  Read(object, "percentile", settings.percentile);
  Read(object, "momentum", settings.momentum);
  Read(object, "powerOf2", settings.power_of_2);
}

OperatorSettings ReadOperatorSettings(const val& object, OperatorSettings settings) {
  Read(object, "quantize", settings.quantize);
  if (Has(object, "activations")) ReadTensorSettings(object["activations"], settings.activations);
  if (Has(object, "weights")) ReadTensorSettings(object["weights"], settings.weights);
  return settings;
}

double Now() { return emscripten_get_now(); }

}  // namespace

SessionRequest ReadSessionOptions(const val& options) {
  SessionRequest request;
  request.options.plan.requantize = ReadMode(options);
  request.options.now = Now;
  request.options.runner = Threads();
  Read(options, "threads", request.options.plan.threads);
  Read(options, "profile", request.options.profile);
  Read(options, "fuse", request.options.plan.fuse);
  Read(options, "optimize", request.optimize);
  Read(options, "consume", request.consume);
  request.taps = ReadStrings(options, "taps");
  if (Has(options, "kernels")) {
    ForEachProperty(options["kernels"], [&](const std::string& family, const val& kernel) {
      request.options.plan.force_kernels.push_back({family, kernel.as<std::string>()});
    });
  }
  return request;
}

QuantizeOptions ReadQuantizeOptions(const val& options) {
  QuantizeOptions out;
  if (Has(options, "global")) out.global = ReadOperatorSettings(options["global"], out.global);
  if (Has(options, "types")) {
    ForEachProperty(options["types"], [&](const std::string& type, const val& settings) {
      out.by_type[type] = ReadOperatorSettings(settings, out.global);
    });
  }
  if (Has(options, "operators")) {
    ForEachProperty(options["operators"], [&](const std::string& name, const val& settings) {
      out.by_name[name] = ReadOperatorSettings(settings, out.global);
    });
  }
  if (Has(options, "recover")) out.recover = ReadStrings(options, "recover");
  return out;
}

CompareOptions ReadCompareOptions(const val& options) {
  CompareOptions out;
  out.requantize = ReadMode(options);
  out.now = Now;
  out.runner = Threads();
  Read(options, "layerwise", out.layerwise);
  Read(options, "aloneSamples", out.alone_samples);
  double bytes = 0;
  Read(options, "floatBytes", bytes);
  out.float_bytes = static_cast<size_t>(bytes);
  bytes = 0;
  Read(options, "candidateBytes", bytes);
  out.candidate_bytes = static_cast<size_t>(bytes);
  return out;
}

std::string RunPassesFromJs(Graph& graph, const val& options) {
  PipelineOptions pipeline;
  pipeline.only = ReadStrings(options, "only");
  pipeline.disable = ReadStrings(options, "disable");
  pipeline.now = Now;
  bool dump = false;
  Read(options, "dump", dump);
  return OptimizeToJson(graph, std::move(pipeline), dump);
}

}  // namespace requant::bindings
