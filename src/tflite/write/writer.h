// The state of one graph's conversion to a TFLite subgraph.
//
// A value of the graph may be held by several tensors: in several orders of its dimensions, as
// codes and as floats. An operator asks for the form it needs (Need), which adds a TRANSPOSE or a
// DEQUANTIZE once, and says which form its result has (Hold). So the order of channels follows the
// operators, and a Transpose of the graph is another name for a tensor.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/graph.h"
#include "tflite/write.h"
#include "tflite/write/net.h"

namespace requant::tflite {

/// The dimension of the value that each dimension of a tensor is: {0, 2, 3, 1} has channels last.
using Order = std::vector<int64_t>;

/// {0, 1, ..., rank - 1}.
Order PlainOrder(int64_t rank);
/// {0, 2, ..., rank - 1, 1}.
Order ChannelsLast(int64_t rank);
/// shape[order[0]], shape[order[1]], ...
Shape Ordered(const Shape& shape, const Order& order);
/// The place of a dimension of the value in the tensor.
int64_t PlaceOf(const Order& order, int64_t axis);
/// The elements of a tensor whose result dimension i is dimension order[i].
Tensor TransposedData(const Tensor& data, const Order& order);

/// A value's own numbers, or the codes of a quantized one.
enum class Form : uint8_t { kNumbers, kCodes };

/// A tensor that holds a value.
struct Held {
  int32_t tensor;
  Order order;
  Form form;
};

/// A constant behind a DequantizeLinear.
struct ConstantCodes {
  Tensor codes;  ///< of the file's code type, or int32
  std::vector<float> scales;
  std::vector<int64_t> zeros;
  int64_t axis = 0;  ///< of the codes, where there are several scales
};

/// The nodes behind a node that one operator of TFLite computes as well.
struct Tail {
  Value* value = nullptr;  ///< the value that the operator makes
  Activation activation = Activation::kNone;
  std::vector<const Node*> nodes;  ///< the nodes behind the first that it computes as well
  std::optional<Grid> grid;        ///< of the QuantizeLinear that alone reads the value
};

class Writer {
 public:
  Writer(const Graph& graph, const TfliteOptions& options) : graph_(graph), options_(options) {}

  TfliteFile Run();

  // --- what the graph says
  const Graph& graph() const { return graph_; }
  const Node& node() const { return *node_; }
  /// Throws kUnsupported for an open shape.
  Shape ShapeOf(const Value* value) const;
  int64_t RankOf(const Value* value) const { return static_cast<int64_t>(ShapeOf(value).size()); }
  /// Whether the value is a constant, or a DequantizeLinear of one.
  bool IsConstant(const Value* value) const;
  /// The constant's numbers, dequantized. Throws kUnsupported, naming the node, for a value that is
  /// computed.
  Tensor ConstantOf(const Value* value, const char* what) const;
  /// nullopt for a value that is no constant behind a DequantizeLinear.
  std::optional<ConstantCodes> CodesOf(const Value* value) const;
  /// Constant input `slot` as integers, or the attribute of an older opset; nullopt if both are
  /// left out.
  std::optional<std::vector<int64_t>> Ints(size_t slot, const char* attribute) const;

  // --- how values are held
  /// Whether the value is held as codes of 8 bits, or is a constant of such codes with one scale.
  bool HasCodes(const Value* value) const;
  Grid GridOf(const Value* value) const;
  /// int8, or uint8 where weights have zero points: LiteRT computes products of such weights on
  /// uint8 alone.
  TensorType code_type() const { return code_type_; }
  /// The grid of a Q/DQ node with one scale, in the file's code type; nullopt for others.
  std::optional<Grid> GridOfPair(const Node& pair) const;
  /// The form and the order that cost nothing.
  Form NativeForm(const Value* value) const;
  Order NativeOrder(const Value* value) const;
  /// The order of the first value of that rank that is computed and not held plainly; else plain.
  Order OrderFor(const std::vector<Value*>& values, int64_t rank) const;
  /// A tensor that holds the value so.
  int32_t Need(const Value* value, const Order& order, Form form);
  int32_t NeedPlain(const Value* value, Form form);
  void Hold(const Value* value, int32_t tensor, Order order, Form form);
  /// Makes `value` another name of what holds `from`, whose dimension permutation[i] is its i-th.
  void Alias(const Value* value, const Value* from, const Order& permutation);

  // --- what follows a node
  /// The activation and the QuantizeLinear behind the node's first output. `activations`: whether
  /// the operator has a fused one.
  Tail TailOf(bool activations) const;
  /// Holds the tail's value, and skips the nodes that are computed with it.
  void Finish(const Tail& tail, int32_t tensor, Order order, Form form);
  /// Whether the tail's value has a grid, and all these values have codes of its type.
  bool OnCodes(const Tail& tail, const std::vector<const Value*>& values) const;
  /// The form of an operator that computes between codes of one grid and rounds to them: codes if
  /// the tail's value has a grid that is not finer, for otherwise a step of the result would be
  /// lost.
  Form FormOnOneGrid(const Tail& tail, const Value* value) const;

  // --- tensors and operators
  const NetTensor& tensor(int32_t index) const { return net_.tensors[static_cast<size_t>(index)]; }
  int32_t AddTensor(std::string name, TensorType type, Shape shape, Grid grid = {});
  int32_t AddConstant(std::string name, Tensor data, Grid grid = {});
  int32_t AddFloats(std::string name, Tensor data);
  int32_t AddInts(const std::vector<int64_t>& numbers);
  void AddOperator(Builtin op, std::vector<int32_t> inputs, std::vector<int32_t> outputs,
                   std::vector<Option> options = {});
  /// Adds an operator with one result, of the grid's type if there is one, else of `type`.
  int32_t Add(Builtin op, std::vector<int32_t> inputs, const std::string& name, TensorType type,
              Shape shape, std::vector<Option> options = {}, Grid grid = {});
  /// The tensor with dimension order[i] as its i-th: a RESHAPE where no element moves.
  int32_t Transposed(int32_t index, const Order& order, const std::string& name);
  int32_t Reshaped(int32_t index, const Shape& shape, const std::string& name);
  /// The tensor's numbers, DEQUANTIZEd.
  int32_t Dequantized(int32_t index, const std::string& name);
  /// Codes or floats on another grid, by QUANTIZE.
  int32_t Quantized(int32_t index, const Grid& grid, const std::string& name);
  /// The type in the file of a value or constant of that name. Refuses types that LiteRT's
  /// operators do not take.
  TensorType FileType(DType dtype, const std::string& name, const Value* value = nullptr) const;
  TensorType TypeOf(const Value* value) const;

  // --- the report
  void NotePad() { pads_.insert(node_->name); }
  void Note(std::string text) { notes_.push_back(std::move(text)); }
  void NoteRequantized(const std::string& value) { requantized_.push_back(value); }

  /// Throws kUnsupported, naming the node.
  [[noreturn]] void Refuse(const std::string& what, const std::string& hint,
                           const Value* value = nullptr) const;

 private:
  void ChooseCodeType();
  void AddInputs();
  void AddOutputs();
  void AddInput(const Value* value);
  int32_t OutputTensor(const Value* value, std::set<int32_t>& taken);
  /// Makes the names of other tensors differ from those of inputs and outputs, and of each other.
  void NameTensors();
  bool WantsChannelsLast(const Value* value, std::unordered_set<const Value*>& seen) const;
  int32_t NeedConstant(const Value* value, const Order& order, Form form);
  std::optional<Grid> GridBehind(const Value* value) const;
  std::string Report() const;

  const Graph& graph_;
  TfliteOptions options_;
  const Node* node_ = nullptr;
  TensorType code_type_ = TensorType::kInt8;
  Net net_;
  std::map<std::pair<int32_t, Order>, int32_t> transposed_;
  std::map<int32_t, int32_t> dequantized_;
  std::unordered_map<const Value*, std::vector<Held>> held_;
  std::unordered_set<const Node*> done_;
  std::map<const Value*, Order> ends_;  // the orders of inputs and outputs
  std::vector<std::string> transposes_, requantized_, notes_;
  std::set<std::string> pads_, floats_;
};

}  // namespace requant::tflite
