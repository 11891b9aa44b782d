// Writes models in forms other than ONNX. A part of the tools, which tools.cpp binds.
#include <map>
#include <string>

#include "options.h"
#include "quantized_handle.h"
#include "read_option.h"

namespace requant::bindings {
namespace {

using emscripten::val;

val PreparedForC(const ModelHandle& model, const val& names, const val& dims) {
  return Guard([&] { return WrapModel(PrepareForC(*model.graph(), ReadShapes(names, dims))); });
}

/// `model` is from PreparedForC; `kernels` alternates names and texts.
val GeneratedCode(const ModelHandle& model, const val& options, const val& kernels) {
  return Guard([&] {
    GenerateCOptions read{options["name"].as<std::string>(), ReadRequantizeMode(options)};
    const val calls = options["calls"];
    const auto count = calls["length"].as<unsigned>();
    for (unsigned i = 0; i < count; ++i) {
      read.calls.push_back({calls[i]["function"].as<std::string>(),
                            calls[i]["header"].as<std::string>(),
                            ReadPositions(calls[i]["nodes"])});
    }
    CKernels texts;
    const auto list = emscripten::vecFromJSArray<std::string>(kernels);
    for (size_t i = 0; i + 1 < list.size(); i += 2) texts[list[i]] = list[i + 1];
    const GeneratedC made = GenerateC(*model.graph(), read, texts);
    val out = val::object();
    out.set("source", made.source);
    out.set("header", made.header);
    out.set("workspaceBytes", static_cast<double>(made.workspace_bytes));
    out.set("constantBytes", static_cast<double>(made.constant_bytes));
    return out;
  });
}

val AsJson(const ModelHandle& model, double max_numbers) {
  return Guard([&] { return val(GraphToJson(*model.graph(), static_cast<size_t>(max_numbers))); });
}

/// Returns { model, report: JSON }.
val Legalized(const ModelHandle& model, const val& options) {
  return Guard([&] {
    IntegerForm form;
    form.requantize = ReadRequantizeMode(options);
    if (options["decomposition"].as<std::string>() == "four_terms") {
      form.decomposition = Decomposition::kFourTerms;
    }
    LegalizedModel made = LegalizedFrom(*model.graph(), form);
    val out = val::object();
    out.set("model", WrapModel(std::move(made.graph)));
    out.set("report", made.report);
    return out;
  });
}

/// Returns { file: Blob, report: JSON }.
val AsTflite(const ModelHandle& model, const val& names, const val& dims, const val& options) {
  return Guard([&] {
    const TfliteOptions read{.onnx_layout = options["onnxLayout"].as<bool>(),
                             .codes = options["codes"].as<bool>(),
                             .half_weights = options["halfWeights"].as<bool>()};
    TfliteFile made = TfliteOf(*model.graph(), ReadShapes(names, dims), read);
    val out = val::object();
    out.set("file", val(std::make_shared<Blob>(std::move(made.bytes))));
    out.set("report", made.report);
    return out;
  });
}

val Described(const ModelHandle& model, double max_numbers) {
  return Guard(
      [&] { return val(DescribeGraph(*model.graph(), static_cast<size_t>(max_numbers))); });
}

}  // namespace

std::vector<size_t> ReadPositions(const val& list) {
  std::vector<size_t> positions;
  for (const double position : emscripten::vecFromJSArray<double>(list)) {
    positions.push_back(static_cast<size_t>(position));
  }
  return positions;
}

std::map<std::string, Shape> ReadShapes(const val& names, const val& dims) {
  std::map<std::string, Shape> shapes;
  const auto inputs = emscripten::vecFromJSArray<std::string>(names);
  for (size_t i = 0; i < inputs.size(); ++i) {
    Shape& shape = shapes[inputs[i]];
    for (const double dim : emscripten::vecFromJSArray<double>(dims[i])) {
      shape.push_back(static_cast<int64_t>(dim));
    }
  }
  return shapes;
}

void BindGeneration() {
  using emscripten::function;
  function("prepareForC", &PreparedForC);
  function("generateC", &GeneratedCode);
  function("generateJson", &AsJson);
  function("legalize", &Legalized);
  function("writeTflite", &AsTflite);
  function("describe", &Described);
}

}  // namespace requant::bindings
