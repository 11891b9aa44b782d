// Runs one operator on constants through the table: inference first, then the reference, whose
// outputs must have the inferred types.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/lcg.h"
#include "ir/graph.h"
#include "ops/op.h"

namespace requant {

struct OpCase {
  std::string op;
  int opset = 13;
  std::string domain = "";
  size_t outputs = 1;
  RequantizeMode requantize = RequantizeMode::kUpward;
};

inline AttributeMap Attributes(std::vector<AttributeMap::Entry> entries) {
  AttributeMap map;
  for (auto& [name, value] : entries) map.Set(name, std::move(value));
  return map;
}

/// A list attribute: `Ints({1, 2})`.
inline Attribute Ints(std::vector<int64_t> values) { return values; }
inline Attribute Int(int64_t value) { return value; }
inline Attribute Text(std::string value) { return value; }

inline Tensor Floats(std::vector<float> values, Shape shape) {
  return Tensor::FromVector<float>(values, std::move(shape));
}
inline Tensor Floats(std::vector<float> values) { return Tensor::Vector<float>(values); }

/// Runs the operator. An empty Tensor among the inputs is an omitted optional input.
inline std::vector<Tensor> RunOutputs(const OpCase& op, const std::vector<Tensor>& inputs,
                                      std::vector<AttributeMap::Entry> attributes = {}) {
  Graph graph;
  graph.opsets[op.domain] = op.opset;
  std::vector<Value*> values;
  std::vector<const Tensor*> tensors;
  for (const Tensor& tensor : inputs) {
    values.push_back(tensor.empty() ? nullptr : graph.AddConstant("in", tensor));
    tensors.push_back(tensor.empty() ? nullptr : &tensor);
  }
  std::vector<Value*> results;
  for (size_t i = 0; i < op.outputs; ++i) results.push_back(graph.AddValue("out"));
  Node* node = graph.AddNode(op.op, op.domain, values, results, Attributes(std::move(attributes)));
  const std::vector<ValueType> types = InferNode(graph, *node);
  std::vector<Tensor> outputs = EvaluateNode(graph, *node, tensors, op.requantize);
  EXPECT_EQ(outputs.size(), types.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    EXPECT_EQ(DTypeName(outputs[i].dtype()), std::string(DTypeName(types[i].dtype)));
    if (!types[i].shape) continue;
    EXPECT_EQ(outputs[i].shape().size(), types[i].shape->size());
    for (size_t d = 0; d < types[i].shape->size(); ++d) {
      const Dim& dim = (*types[i].shape)[d];
      EXPECT_TRUE(!dim.known() || dim.value == outputs[i].shape()[d]) << "dimension " << d;
    }
  }
  return outputs;
}

inline Tensor RunOp(const OpCase& op, const std::vector<Tensor>& inputs,
                    std::vector<AttributeMap::Entry> attributes = {}) {
  return RunOutputs(op, inputs, std::move(attributes))[0];
}

/// The inferred types as text if only the types of the inputs are known.
inline std::string Infer(const OpCase& op, const std::vector<ValueType>& inputs,
                         std::vector<AttributeMap::Entry> attributes = {}) {
  Graph graph;
  graph.opsets[op.domain] = op.opset;
  std::vector<Value*> values;
  for (const ValueType& type : inputs) values.push_back(graph.AddValue("in", type));
  Node* node = graph.AddNode(op.op, op.domain, values, {graph.AddValue("out")},
                             Attributes(std::move(attributes)));
  return TypeToString(InferNode(graph, *node)[0]);
}

inline ValueType FloatType(SymbolicShape shape) { return {DType::kFloat32, std::move(shape)}; }
inline Dim Named(const char* name) { return Dim(std::string(name)); }

/// The code of the Error that `function` throws; nothing if it does not throw.
template <typename Function>
std::optional<ErrorCode> CodeOf(Function&& function) {
  try {
    function();
  } catch (const Error& error) {
    EXPECT_FALSE(error.message().empty());
    return error.code();
  }
  return std::nullopt;
}

inline void ExpectTensor(const Tensor& got, const Shape& shape, const std::vector<double>& want,
                         double tolerance = 0) {
  EXPECT_EQ(got.shape(), shape);
  const std::vector<double> values = got.ToDoubles();
  ASSERT_EQ(values.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(want[i])) {
      EXPECT_TRUE(std::isnan(values[i])) << "element " << i << " is " << values[i];
    } else if (values[i] != want[i]) {
      EXPECT_NEAR(values[i], want[i], tolerance) << "element " << i;
    }
  }
}

/// Repeatable pseudo-random values in [-1, 1).
inline Tensor Noise(Shape shape, uint32_t seed) {
  Tensor out(DType::kFloat32, std::move(shape));
  Lcg random{seed};
  for (int64_t i = 0; i < out.count(); ++i) {
    out.data<float>()[i] = static_cast<float>(random.Next() >> 8) / 8388608.0F - 1.0F;
  }
  return out;
}

}  // namespace requant
