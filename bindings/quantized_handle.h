// Declarations that the files of the tools share.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "handles.h"

namespace requant::bindings {

class QuantizedHandle {
 public:
  explicit QuantizedHandle(QuantizedModel model) : model_(std::move(model)) {}

  emscripten::val Record() const {
    return Guard([this] { return emscripten::val(RecordToJson(model_.record)); });
  }
  emscripten::val Integer() const {
    return Guard([this] { return WrapModel(LowerToInteger(model_).Release()); });
  }
  emscripten::val Qdq(int narrowest) const {
    return Guard([&] { return WrapModel(ToQdq(model_, narrowest)); });
  }
  emscripten::val Qonnx() const {
    return Guard([this] { return WrapModel(ToQonnx(model_)); });
  }
  emscripten::val QOperator() const {
    return Guard([this] { return WrapModel(ToQOperator(model_)); });
  }
  emscripten::val FloatModel() const {
    return Guard([this] { return WrapModel(model_.float_graph.Clone()); });
  }

  emscripten::val Copy(const std::string& warning) const {
    return Guard([&] {
      QuantizedModel copy{model_.float_graph.Clone(), model_.record};
      copy.record.warnings.push_back(warning);
      return emscripten::val(std::make_shared<QuantizedHandle>(std::move(copy)));
    });
  }

  /// A copy with other values of slots (ReadEdits).
  emscripten::val Edited(const emscripten::val& edits) const {
    return Guard([&] {
      QuantizedModel copy{model_.float_graph.Clone(), model_.record};
      EditSlots(copy, ReadEdits(edits));
      KeepRunnable(copy, {});
      return emscripten::val(std::make_shared<QuantizedHandle>(std::move(copy)));
    });
  }

  const QuantizedModel& model() const { return model_; }

 private:
  QuantizedModel model_;
};

/// Reads indices of nodes (generate.cpp).
std::vector<size_t> ReadPositions(const emscripten::val& list);
/// Reads shapes of inputs from parallel arrays (generate.cpp).
std::map<std::string, Shape> ReadShapes(const emscripten::val& names, const emscripten::val& dims);
/// Binds the functions that write models in other forms (generate.cpp).
void BindGeneration();
/// Binds the functions that divide models (partition.cpp).
void BindPartition();
/// Binds the functions for passes and operators of the user's own (own_passes.cpp,
/// own_operators.cpp).
void BindOwnPasses();
void BindOwnOperators();
/// Binds observers and grids as objects (observers.cpp).
void BindObservers();
/// Binds the classes and functions of training (train.cpp).
void BindTraining();
void BindWeights();

}  // namespace requant::bindings
