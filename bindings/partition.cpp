// Divides models among backends, and cuts parts out. A part of the tools, which tools.cpp binds.
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
  for (const size_t node : ReadPositions(options["takes"])) out.takes.at(node) = 1;
  const val composites = options["composites"];
  const auto count = composites["length"].as<unsigned>();
  for (unsigned i = 0; i < count; ++i) {
    out.composites.push_back(
        {composites[i]["pattern"].as<int>(), ReadPositions(composites[i]["nodes"])});
  }
  out.max_operators = static_cast<int64_t>(options["maxOperators"].as<double>());
  out.min_macs = static_cast<int64_t>(options["minMacs"].as<double>());
  out.join = options["join"].as<bool>();
  return out;
}

val CompositesOf(const Part& part) {
  val list = val::array();
  for (const Composite& composite : part.composites) {
    val nodes = val::array();
    for (const size_t node : composite.nodes) {
      nodes.call<void>("push", static_cast<double>(node));
    }
    val entry = val::object();
    entry.set("pattern", composite.pattern);
    entry.set("nodes", nodes);
    list.call<void>("push", entry);
  }
  return list;
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
      entry.set("composites", CompositesOf(part));
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

val Extracted(const ModelHandle& model, const val& from, const val& to) {
  return Guard([&] {
    return WrapModel(ExtractBetween(*model.graph(), emscripten::vecFromJSArray<std::string>(from),
                                    emscripten::vecFromJSArray<std::string>(to)));
  });
}

}  // namespace

void BindPartition() {
  using emscripten::function;
  function("extract", &Extracted);
  function("partition", &Parts);
  function("nodesInC", &NodesInC);
  function("withTypes", &Typed);
}

}  // namespace requant::bindings
