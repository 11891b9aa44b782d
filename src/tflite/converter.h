// Turns the tensors and operators of a subgraph into values and nodes.
//
// TFLite keeps images with their channels last, ONNX's operators want them second. So a tensor may
// have two values: a plain one, in the file's order of dimensions, and a planar one. Operators that
// work on either take the one that exists, and a Transpose appears only where the two meet.
//
// A quantized tensor has codes, which carry its name, and reals, which are read through
// DequantizeLinear and written through QuantizeLinear, as in a QDQ file.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "tflite/file.h"

namespace requant::tflite {

enum class Order : uint8_t { kPlain, kPlanar };

/// The dimensions of a plain tensor in the order of a planar one: [0, rank - 1, 1, ...].
std::vector<int64_t> PlanarOrder(size_t rank);
/// The position of a plain axis in a planar tensor.
int64_t PlanarAxis(int64_t axis, size_t rank);

struct Ordered {
  Value* value = nullptr;
  Order order = Order::kPlain;
};

/// The values of a tensor, as far as something has asked for them.
struct TensorState {
  Value* codes[2] = {};  // by Order; of a tensor without scales its numbers
  Value* reals[2] = {};  // of a tensor with scales
  bool defined = false;
};

class Converter {
 public:
  Converter(const File& file, size_t subgraph);

  /// Converts the whole file's first subgraph.
  Graph ConvertModel();
  /// Converts a subgraph as a body of If, whose inputs are all captured from around it. Arguments
  /// that are constant there are constants of the body. Sets `captured` to the positions of the
  /// others.
  Subgraph ConvertBody(size_t subgraph, const std::vector<Tensor>& arguments,
                       std::vector<size_t>& captured) const;

  /// Adds the operators of a subgraph in place of `op`, whose inputs and outputs are the
  /// subgraph's.
  void Inline(size_t subgraph, const FileOperator& op);

  Graph& graph() { return graph_; }
  const FileTensor& tensor(int32_t index) const {
    return subgraph_.tensors[static_cast<size_t>(index)];
  }
  const FileSubgraph& subgraph(size_t index) const { return file_.subgraphs()[index]; }
  size_t subgraphs() const { return file_.subgraphs().size(); }
  bool float_layers() const { return file_.float_layers(); }

  /// The tensor's constant, or nullptr. Codes of a quantized one.
  const Tensor* Constant(int32_t index) const;
  bool quantized(int32_t index) const { return !tensor(index).quantization.scales.empty(); }

  /// The codes, or the numbers of a tensor without scales. Throws kInvalidModel for a tensor that
  /// nothing defines, and kUnsupported for one of a type that the engine lacks.
  Value* Codes(int32_t index, Order order);
  /// The real numbers.
  Value* Reals(int32_t index, Order order);
  /// The order in which the tensor already has values; plain for constants and inputs.
  Order OrderOf(int32_t index) const;

  void DefineCodes(int32_t index, Value* value, Order order);
  void DefineReals(int32_t index, Value* value, Order order);
  void DefineConstant(int32_t index, Tensor constant);
  /// Complex numbers, which the graph holds as floats with a last dimension of 2. Throws
  /// kUnsupported for a tensor that no spectrum defines.
  Value* Complex(int32_t index) const;
  void DefineComplex(int32_t index, Value* value) { complex_[static_cast<size_t>(index)] = value; }

  /// The node's output; nodes are named as the tensor that is being defined.
  Value* Add(const char* op, std::vector<Value*> inputs, AttributeMap attributes = {});
  std::vector<Value*> AddMany(const char* op, std::vector<Value*> inputs, size_t outputs,
                              AttributeMap attributes = {});
  Value* AddConstant(Tensor tensor);
  Value* Transposed(Value* value, const std::vector<int64_t>& perm);
  /// DequantizeLinear of codes in an order of dimensions in which the quantized axis is `axis`.
  Value* Dequantize(Value* codes, const Quantization& quantization, DType dtype, int64_t axis);
  Value* Quantize(Value* reals, int32_t index, Order order);

 private:
  void ConvertOperators();
  void AddInputs(bool captured, const std::vector<Tensor>* arguments);
  void AddOutputs();
  TensorState& Defined(int32_t index);
  /// Names the value as the tensor, unless another value of it keeps the name for an output.
  void NameValue(Value* value, int32_t index, Order order);

  const File& file_;
  const FileSubgraph& subgraph_;
  int depth_ = 0;  // bodies around this one
  /// Operators that may still be converted, by this converter and those of bodies.
  std::shared_ptr<size_t> left_;
  Graph graph_;
  std::vector<TensorState> states_;
  std::vector<Value*> complex_;
  std::vector<Tensor> constants_;
  std::vector<bool> is_output_;
  std::string label_;  // of nodes
};

/// One operator while it is converted. A slot counts the operator's inputs or outputs.
class Context {
 public:
  Context(Converter& converter, const FileOperator& op, const char* name)
      : converter_(converter), op_(op), name_(name) {}

  Converter& graph() { return converter_; }
  const FileOperator& op() const { return op_; }
  const TableView& options() const { return op_.options; }
  const char* name() const { return name_; }

  size_t inputs() const { return op_.inputs.size(); }
  size_t outputs() const { return op_.outputs.size(); }
  bool has(size_t slot) const { return slot < op_.inputs.size() && op_.inputs[slot] >= 0; }
  /// The tensor's index. Throws kInvalidModel for a slot that is missing.
  int32_t in(size_t slot) const;
  int32_t out(size_t slot = 0) const;
  const FileTensor& input(size_t slot) const { return converter_.tensor(in(slot)); }
  const FileTensor& output(size_t slot = 0) const { return converter_.tensor(out(slot)); }
  size_t rank(size_t slot) const { return input(slot).shape.size(); }

  const Tensor* constant(size_t slot) const { return converter_.Constant(in(slot)); }
  /// The integers of a constant. Throws kUnsupported for a tensor that is none.
  std::vector<int64_t> ints(size_t slot) const;
  /// An axis of a tensor of that rank; negative ones count from the end. Throws kInvalidModel.
  int64_t Axis(int64_t axis, size_t rank) const;

  Value* Reals(size_t slot, Order order = Order::kPlain) {
    return converter_.Reals(in(slot), order);
  }
  Value* Codes(size_t slot, Order order = Order::kPlain) {
    return converter_.Codes(in(slot), order);
  }
  /// Numbers as int64, plain: for shapes, axes and indices, which TFLite keeps as int32.
  Value* Int64(size_t slot);
  Order order(size_t slot) const { return converter_.OrderOf(in(slot)); }
  void Define(Value* reals, Order order = Order::kPlain, size_t slot = 0) {
    converter_.DefineReals(out(slot), reals, order);
  }
  /// Applies the fused activation before it defines the output.
  void DefineActivated(Value* reals, int8_t activation, Order order = Order::kPlain);
  Value* Activate(Value* reals, Activation activation);
  /// Converts an int64 result to the output's type, and defines it.
  void DefineInts(Value* int64, size_t slot = 0);

  Value* Add(const char* op, std::vector<Value*> inputs, AttributeMap attributes = {}) {
    return converter_.Add(op, std::move(inputs), std::move(attributes));
  }
  Value* Cast(Value* value, DType dtype);
  Value* Ints(const std::vector<int64_t>& values);
  Value* Scalar(float value);

  /// Throws kUnsupported, naming operator and output.
  [[noreturn]] void Refuse(const std::string& what, std::string hint) const;
  /// Throws kInvalidModel, naming operator and output.
  [[noreturn]] void Invalid(const std::string& what) const;

 private:
  ErrorContext Where(std::string hint) const;

  Converter& converter_;
  const FileOperator& op_;
  const char* name_;
};

/// Attributes of one or two entries.
AttributeMap With(std::string name, Attribute value);
AttributeMap With(std::string name, Attribute value, std::string second, Attribute other);

}  // namespace requant::tflite
