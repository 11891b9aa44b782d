// Divides models among backends. A part of the tools, which tools.cpp binds.
#include <string>
#include <vector>

#include "options.h"
#include "quantized_handle.h"
#include "read_option.h"

namespace requant::bindings {
namespace {

using emscripten::val;

Backend ReadBackend(const val& options, size_t nodes) {
  Backend out;
  out.takes.resize(nodes);
  for (const double node : emscripten::vecFromJSArray<double>(options["takes"])) {
    out.takes.at(static_cast<size_t>(node)) = 1;
  }
  const val patterns = options["patterns"];
  const auto count = patterns["length"].as<unsigned>();
  for (unsigned i = 0; i < count; ++i) {
    out.patterns.push_back(emscripten::vecFromJSArray<std::string>(patterns[i]));
  }
  out.max_operators = static_cast<int64_t>(options["maxOperators"].as<double>());
  out.min_macs = static_cast<int64_t>(options["minMacs"].as<double>());
  return out;
}

val Parts(const ModelHandle& model, const val& list) {
  return Guard([&] {
    const std::shared_ptr<const Graph> graph = model.graph();
    std::vector<Backend> backends;
    const auto count = list["length"].as<unsigned>();
    for (unsigned i = 0; i < count; ++i) {
      backends.push_back(ReadBackend(list[i], graph->nodes().size()));
    }
    val out = val::array();
    for (Part& part : PartitionGraph(*graph, backends)) {
      val entry = val::object();
      entry.set("backend", part.backend);
      entry.set("macs", static_cast<double>(part.macs));
      entry.set("model", WrapModel(std::move(part.graph)));
      out.call<void>("push", entry);
    }
    return out;
  });
}

val Typed(const ModelHandle& model, const val& names, const val& dims) {
  return Guard([&] { return WrapModel(WithTypes(*model.graph(), ReadShapes(names, dims))); });
}

val NodesInC(const ModelHandle& model, const val& options) {
  return Guard([&] {
    const std::shared_ptr<const Graph> graph = model.graph();
    const RequantizeMode mode = ReadRequantizeMode(options);
    val out = val::array();
    for (size_t i = 0; i < graph->nodes().size(); ++i) {
      if (HasC(*graph, *graph->nodes()[i], mode)) {
        out.call<void>("push", static_cast<double>(i));
      }
    }
    return out;
  });
}

}  // namespace

void BindPartition() {
  using emscripten::function;
  function("partition", &Parts);
  function("nodesInC", &NodesInC);
  function("withTypes", &Typed);
}

}  // namespace requant::bindings
