// The objects of the core that JavaScript holds, and how calls, feeds and results cross between
// them.
#pragma once

#include <emscripten/bind.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/requant.h"
#include "options.h"

namespace requant::bindings {

/// Runs `body(self)` and turns its exceptions into the error object of bindings/README.md.
emscripten::val GuardCall(emscripten::val (*body)(const void* self), const void* self);

template <typename Body>
emscripten::val Guard(const Body& body) {
  return GuardCall([](const void* self) { return (*static_cast<const Body*>(self))(); }, &body);
}

inline uint8_t* Pointer(double address) {
  return reinterpret_cast<uint8_t*>(static_cast<uintptr_t>(address));
}

inline double Address(const void* pointer) {
  return static_cast<double>(reinterpret_cast<uintptr_t>(pointer));
}

/// Reads feeds from parallel arrays: tensors over memory that JavaScript has filled, or with memory
/// of their own where `pointers` is undefined.
TensorMap ReadFeeds(const emscripten::val& names, const emscripten::val& types,
                    const emscripten::val& dims, const emscripten::val& pointers);

/// { name, type, dims, pointer, size } of a tensor, for JavaScript to copy.
emscripten::val TensorToJs(const std::string& name, const Tensor& tensor);

/// The results of a run for JavaScript, without those that stay empty.
emscripten::val ResultsToJs(const Graph& graph, const std::vector<Tensor>& results);

/// The entries of the function table that the graph's operators may need, by which JavaScript sees
/// whether it must load the extended operators.
emscripten::val OperatorFunctions(const Graph& graph);

/// Bytes for JavaScript to copy.
class Blob {
 public:
  explicit Blob(std::vector<uint8_t> bytes) : bytes_(std::move(bytes)) {}
  double pointer() const { return Address(bytes_.data()); }
  double size() const { return static_cast<double>(bytes_.size()); }
  void Release() { std::vector<uint8_t>().swap(bytes_); }

 private:
  std::vector<uint8_t> bytes_;
};

class ModelHandle {
 public:
  explicit ModelHandle(std::shared_ptr<Graph> graph) : graph_(std::move(graph)) {}

  std::shared_ptr<const Graph> graph() const { return graph_; }
  /// The graph of a model that nobody uses any more, or a copy if copies of the handle share it.
  Graph Take() {
    const std::shared_ptr<Graph> graph = std::move(graph_);
    return graph.use_count() == 1 ? std::move(*graph) : graph->Clone();
  }
  emscripten::val Info() const {
    return Guard([this] { return emscripten::val(ModelInfoJson(*graph_)); });
  }
  emscripten::val Functions() const {
    return Guard([this] { return OperatorFunctions(*graph_); });
  }
  emscripten::val LowBits() const {
    return Guard([this] { return emscripten::val(MayUseLowBits(*graph_)); });
  }
  emscripten::val Text(double max_constant_elements) const {
    return Guard([&] {
      return emscripten::val(PrintGraph(*graph_, {static_cast<size_t>(max_constant_elements)}));
    });
  }
  emscripten::val Dot() const {
    return Guard([this] { return emscripten::val(GraphToDot(*graph_)); });
  }
  /// The number of parts of the ONNX file, then pointer and size of these and of the parts of the
  /// file with external data. They live as long as this handle.
  emscripten::val Onnx(std::string external_data) {
    return Guard([&] {
      WriteOptions options;
      options.external_data = std::move(external_data);
      written_ = std::make_unique<OnnxPieces>(WriteOnnxPieces(*graph_, options));
      emscripten::val out = emscripten::val::array();
      const std::vector<std::span<const uint8_t>> model = written_->model.Parts();
      out.call<void>("push", static_cast<double>(model.size()));
      const auto put = [&](const std::vector<std::span<const uint8_t>>& parts) {
        for (const auto& part : parts) {
          out.call<void>("push", Address(part.data()));
          out.call<void>("push", static_cast<double>(part.size()));
        }
      };
      put(model);
      put(written_->data.Parts());
      return out;
    });
  }
  emscripten::val Clone() const {
    return Guard([this] { return emscripten::val(std::make_shared<ModelHandle>(graph_)); });
  }
  emscripten::val Optimize(const emscripten::val& options) {
    return Guard([&] {
      auto copy = std::make_shared<Graph>(graph_->Clone());
      const std::string report = bindings::RunPassesFromJs(*copy, options);
      graph_ = std::move(copy);
      return emscripten::val(report);
    });
  }

 private:
  std::shared_ptr<Graph> graph_;  // copies of the handle share it, and nobody changes it
  std::unique_ptr<OnnxPieces> written_;
};

inline emscripten::val WrapModel(Graph graph) {
  return emscripten::val(std::make_shared<ModelHandle>(std::make_shared<Graph>(std::move(graph))));
}

}  // namespace requant::bindings
