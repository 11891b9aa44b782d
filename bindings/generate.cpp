// Writes models in forms other than ONNX. A part of the tools, which tools.cpp binds.
#include <map>
#include <string>

#include "options.h"
#include "quantized_handle.h"
#include "read_option.h"

namespace requant::bindings {
namespace {

using emscripten::val;

/// `kernels` alternates names and texts.
val GeneratedCode(const ModelHandle& model, const val& names, const val& dims, const val& options,
                  const val& kernels) {
  return Guard([&] {
    const std::map<std::string, Shape> shapes = ReadShapes(names, dims);
    GenerateCOptions read{options["name"].as<std::string>(), ReadRequantizeMode(options)};
    CKernels texts;
    const auto list = emscripten::vecFromJSArray<std::string>(kernels);
    for (size_t i = 0; i + 1 < list.size(); i += 2) texts[list[i]] = list[i + 1];
    const GeneratedC made = GenerateCode(*model.graph(), shapes, read, texts);
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

}  // namespace

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
  function("generateC", &GeneratedCode);
  function("generateJson", &AsJson);
  function("legalize", &Legalized);
}

}  // namespace requant::bindings
