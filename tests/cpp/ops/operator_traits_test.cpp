// Tests what rows of the operator table say beside their functions.
#include <gtest/gtest.h>

#include <string_view>

#include "ops/op.h"

namespace requant {
namespace {

/// ONNX and ONNX Runtime name operators on codes in these ways; Lut, FixedPointMultiply and those
/// of 16 bits, Integer..., BitSerial... and ...Rows are ours.
bool IsNamedAsOnIntegers(std::string_view name) {
  return name.starts_with("QLinear") || name == "QGemm" || name == "Lut" || name == "ConvInteger" ||
         name == "MatMulInteger" || name == "DynamicQuantizeLinear" || name == "SplitBytes" ||
         name == "FixedPointMultiply" || name.ends_with("16") || name.starts_with("Integer") ||
         name.starts_with("BitSerial") || name == "DynamicQuantizeRows" ||
         name == "MatMulIntegerRows";
}

TEST(OpTable, SaysWhichOperatorsComputeOnCodes) {
  int found = 0;
  for (const OpDef* op : OpTable()) {
    EXPECT_EQ(op->on_integers, IsNamedAsOnIntegers(op->name)) << op->name;
    EXPECT_TRUE(op->expensive || !op->on_integers) << op->name;
    found += op->on_integers ? 1 : 0;
  }
  EXPECT_GT(found, 15);
}

TEST(OpTable, RowsAreFoundByNode) {
  for (const OpDef* op : OpTable()) {
    Node node;
    node.Retype(op->name, op->domain);
    EXPECT_EQ(FindOp(node), op) << op->domain << "::" << op->name;
  }
  Node unknown;
  unknown.Retype("Nothing", "");
  EXPECT_EQ(FindOp(unknown), nullptr);
}

}  // namespace
}  // namespace requant
