// Declared shapes of any size give types or a typed error: nothing is allocated for their elements,
// and no product of theirs overflows.
#include <gtest/gtest.h>

#include <algorithm>
#include <exception>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/op.h"

namespace requant {
namespace {

constexpr int64_t kLarge = int64_t{1} << 33;

Value* AddInput(Graph& graph, const std::string& name, DType dtype, const Shape& shape) {
  Value* value = graph.AddValue(name, {dtype, ToSymbolic(shape)});
  graph.AddInput(value);
  return value;
}

/// Infers the types of a node of `op` whose inputs are all of this type.
void Infer(const OpDef& op, int inputs, DType dtype, const Shape& shape) {
  Graph graph;
  graph.opsets[""] = 25;
  graph.opsets[op.domain] = std::max(graph.opset(op.domain), op.since_version);
  std::vector<Value*> values;
  for (int i = 0; i < inputs; ++i) {
    values.push_back(AddInput(graph, StrCat("x", i), dtype, shape));
  }
  Value* y = graph.AddOp(op.name, op.domain, values, "y", {});
  try {
    InferNode(graph, *y->producer);
  } catch (const Error&) {
    // A typed error is a right answer for a node that can never run.
  } catch (const std::exception& error) {
    ADD_FAILURE() << op.domain << "::" << op.name << " of " << inputs << " inputs "
                  << ShapeToString(shape) << ": " << error.what();
  }
}

TEST(HostileShapes, OfEveryOperator) {
  constexpr int64_t kRoot = int64_t{1} << 29;
  const Shape shapes[] = {{kLarge},
                          {1, kLarge},
                          {kLarge << 29, 3},
                          {1, 2, kLarge, kLarge},
                          {kRoot, kRoot},
                          {0, kLarge << 20},
                          {0, kLarge << 20, kLarge << 10},
                          {kLarge << 20, 0, kLarge << 10},
                          {0, 2, kLarge << 20, kLarge << 10},
                          {1, 2, kLarge << 20, 0},
                          {1, kRoot, kRoot},
                          {2, 1, kRoot, kRoot},
                          {1, kRoot, kRoot, 1},
                          {kRoot, 1, 1, 3, kRoot}};
  for (const OpDef* op : OpTable()) {
    for (int inputs = op->min_inputs; inputs <= std::min(op->max_inputs, op->min_inputs + 3);
         ++inputs) {
      for (const DType dtype : {DType::kFloat32, DType::kInt64, DType::kUint8}) {
        for (const Shape& shape : shapes) Infer(*op, inputs, dtype, shape);
      }
    }
  }
}

/// Operators take the rank of their output from the length of a list whose numbers are not known.
TEST(HostileShapes, OfListsOfDimensions) {
  const char* names[] = {"Reshape", "Expand", "Squeeze", "Unsqueeze", "Tile", "Pad", "Resize"};
  for (const char* name : names) {
    Graph graph;
    graph.opsets[""] = 18;
    Value* x = AddInput(graph, "x", DType::kFloat32, {2, 3});
    Value* list = AddInput(graph, "list", DType::kInt64, {kLarge});
    Value* y = graph.AddOp(name, "", {x, list}, "y", {});
    try {
      InferNode(graph, *y->producer);
    } catch (const Error& error) {
      EXPECT_NE(error.code(), ErrorCode::kInternal) << name;
    }
  }
  Graph graph;
  graph.opsets[""] = 18;
  Value* list = AddInput(graph, "list", DType::kInt64, {kLarge});
  Value* y = graph.AddOp("ConstantOfShape", "", {list}, "y", {});
  EXPECT_THROW(InferNode(graph, *y->producer), Error);
}

}  // namespace
}  // namespace requant
