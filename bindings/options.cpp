#include "options.h"

#include <emscripten/emscripten.h>

#include <cstdlib>

#include "read_option.h"
#include "threads.h"

namespace requant::bindings {
namespace {

using emscripten::val;

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

void ReadTensorSettings(const val& object, TensorSettings& settings) {
#define REQUANT_TENSOR_OPTION(type, field, name, standard) ReadRow(object, name, settings.field);
#define REQUANT_OBSERVER_OPTION REQUANT_TENSOR_OPTION
#include "api/quant_options.inc"
}

/// Reads { slot: settings } over what is known of slots.
void ReadSlots(const val& object, std::map<int, SlotSettings>& slots) {
  ForEachProperty(object, [&](const std::string& slot, const val& given) {
    SlotSettings& settings = slots[std::atoi(slot.c_str())];
#define REQUANT_TENSOR_OPTION(type, field, name, standard) \
  if (Has(given, name)) ReadRow(given, name, settings.field.emplace());
#define REQUANT_OBSERVER_OPTION REQUANT_TENSOR_OPTION
#include "api/quant_options.inc"
    if (Has(given, "scale")) settings.given = ReadScale(given["scale"], given["zeroPoint"]);
  });
}

OperatorSettings ReadOperatorSettings(const val& object, OperatorSettings settings) {
  Read(object, "quantize", settings.quantize);
#define REQUANT_OPERATOR_OPTION(type, field, name, standard) ReadRow(object, name, settings.field);
#include "api/quant_options.inc"
  if (Has(object, "activations")) ReadTensorSettings(object["activations"], settings.activations);
  if (Has(object, "weights")) ReadTensorSettings(object["weights"], settings.weights);
  if (Has(object, "inputs")) ReadSlots(object["inputs"], settings.inputs);
  if (Has(object, "outputs")) ReadSlots(object["outputs"], settings.outputs);
  return settings;
}

double Now() { return emscripten_get_now(); }

}  // namespace

FixedScale ReadScale(const val& scales, const val& offsets) {
  FixedScale out;
  for (const double scale : emscripten::vecFromJSArray<double>(scales)) {
    out.scale.push_back(static_cast<float>(scale));
  }
  if (offsets.isUndefined()) return out;
  for (const double offset : emscripten::vecFromJSArray<double>(offsets)) {
    out.offset.push_back(static_cast<int32_t>(offset));
  }
  return out;
}

TensorSettings ReadTensorSettings(const val& options) {
  TensorSettings settings;
  ReadTensorSettings(options, settings);
  return settings;
}

RequantizeMode ReadRequantizeMode(const val& options) {
  if (!Has(options, "requantize")) return RequantizeMode::kUpward;
  const auto name = options["requantize"].as<std::string>();
  if (name == "fixed") return RequantizeMode::kUpward;
  if (name == "float") return RequantizeMode::kFloat;
  if (name == "nearest") return RequantizeMode::kToNearest;
  if (name == "gemmlowp") return RequantizeMode::kGemmlowp;
  Fail(ErrorCode::kInvalidArgument, "requantize '" + name + "' is not known",
       {.hint = "use 'fixed', 'float', 'nearest' or 'gemmlowp'"});
}

SessionRequest ReadSessionOptions(const val& options) {
  SessionRequest request;
  request.options.plan.requantize = ReadRequantizeMode(options);
  request.options.now = Now;
  request.options.runner = Threads();
  Read(options, "threads", request.options.plan.threads);
  Read(options, "profile", request.options.profile);
  Read(options, "fuse", request.options.plan.fuse);
  Read(options, "compact", request.options.plan.compact);
  if (Has(options, "int8Activations")) {
    Read(options, "int8Activations", request.options.plan.int8_activations.emplace());
  }
  std::string halves;
  Read(options, "halfWeights", halves);
  if (halves == "keep") request.options.plan.halves = HalfPacking::kStay;
  if (halves == "widen") request.options.plan.halves = HalfPacking::kWiden;
  Read(options, "optimize", request.optimize);
  Read(options, "consume", request.consume);
  request.taps = ReadStrings(options, "taps");
  if (Has(options, "dimensions")) {
    ForEachProperty(options["dimensions"], [&](const std::string& symbol, const val& size) {
      request.dimensions[symbol] = static_cast<int64_t>(size.as<double>());
    });
  }
  if (Has(options, "kernels")) {
    ForEachProperty(options["kernels"], [&](const std::string& family, const val& kernel) {
      request.options.plan.force_kernels.push_back({family, kernel.as<std::string>()});
    });
  }
  if (Has(options, "tuned")) {
    ForEachProperty(options["tuned"], [&](const std::string& step, const val& record) {
      Tuned& tuned = request.options.plan.tuned[step];
      tuned.kernel = record["kernel"].as<std::string>();
      Read(record, "threads", tuned.threads);
      Read(record, "panel", tuned.panel);
      if (Has(record, "output")) {
        const bool packed = record["output"].as<std::string>() == "packed";
        tuned.output = packed ? Tuned::Output::kPacked : Tuned::Output::kBytes;
      }
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
      // Settings of a named operator start from those of its type, and these from those of all
      // operators.
      const auto type = out.by_type.find(Has(settings, "type") ? settings["type"].as<std::string>()
                                                               : std::string());
      out.by_name[name] =
          ReadOperatorSettings(settings, type == out.by_type.end() ? out.global : type->second);
    });
  }
  if (Has(options, "scales")) {
    ForEachProperty(options["scales"], [&](const std::string& value, const val& given) {
      out.scales[value] = ReadScale(given["scale"], given["offset"]);
    });
  }
  Read(options, "quickChoices", out.quick_choices);
  Read(options, "recoverNamed", out.recover_named);
  Read(options, "analyze", out.analyze);
#define REQUANT_QUANTIZE_OPTION(type, field, name, standard) ReadRow(options, name, out.field);
#include "api/quant_options.inc"
  if (Has(options, "recover")) out.recover = ReadStrings(options, "recover");
  return out;
}

std::vector<SlotEdit> ReadEdits(const val& edits) {
  std::vector<SlotEdit> out;
  const auto count = edits["length"].as<unsigned>();
  for (unsigned i = 0; i < count; ++i) {
    const val from = edits[i];
    SlotEdit edit{.node = from["node"].as<std::string>(),
                  .is_output = from["output"].as<bool>(),
                  .slot = from["slot"].as<int>()};
    const auto number = [&](const char* key, auto& field) {
      using Number = typename std::remove_reference_t<decltype(field)>::value_type;
      if (Has(from, key)) field = static_cast<Number>(from[key].as<double>());
    };
    number("bits", edit.bits);
    number("quantMin", edit.quant_min);
    number("quantMax", edit.quant_max);
    number("rangeMin", edit.range_min);
    number("rangeMax", edit.range_max);
    if (Has(from, "rounding")) edit.rounding = from["rounding"].as<std::string>();
    if (Has(from, "policy")) edit.policy = from["policy"].as<std::string>();
    if (Has(from, "state")) edit.state = from["state"].as<std::string>();
    if (Has(from, "scale")) edit.scale = ReadScale(from["scale"], val::undefined()).scale;
    if (Has(from, "offset")) edit.offset = ReadScale(val::array(), from["offset"]).offset;
    out.push_back(std::move(edit));
  }
  return out;
}

CompareOptions ReadCompareOptions(const val& options) {
  CompareOptions out;
  out.requantize = ReadRequantizeMode(options);
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
