#include <flatbuffers/flatbuffer_builder.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/late_text.h"
#include "tflite/write/net.h"

namespace requant::tflite {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
using flatbuffers::voffset_t;
using Table = Offset<void>;

/// Flatbuffers end at 2^31 bytes; this leaves room for everything but constants.
constexpr uint64_t kMostConstantBytes = (uint64_t{1} << 31) - (uint64_t{1} << 26);

struct Row {
  const char* name;
  uint8_t options;
  int32_t float_version, code_version;
};

const Row& RowOf(Builtin op) {
  static constexpr Row kNone{"?", 0, 1, 1};
  switch (op) {
#define WRITES(name, options, float_version, code_version)                  \
  case Builtin::k##name: {                                                  \
    static constexpr Row kRow{#name, options, float_version, code_version}; \
    return kRow;                                                            \
  }
#include "tflite/write/options.inc"
#undef WRITES
    default:
      return kNone;
  }
}

template <typename Field>
voffset_t Slot(Field field) {
  return static_cast<voffset_t>(4 + 2 * static_cast<uint16_t>(field));
}

bool IsCode(TensorType type) { return type == TensorType::kInt8 || type == TensorType::kUint8; }

int32_t VersionOf(const Net& net, const NetOperator& op) {
  const auto is_code = [&](int32_t index) {
    return index >= 0 && IsCode(net.tensors[static_cast<size_t>(index)].type);
  };
  const bool codes = std::any_of(op.inputs.begin(), op.inputs.end(), is_code) ||
                     std::any_of(op.outputs.begin(), op.outputs.end(), is_code);
  const Row& row = RowOf(op.op);
  return codes ? row.code_version : row.float_version;
}

class Serializer {
 public:
  explicit Serializer(const Net& net) : net_(net) {}

  std::vector<uint8_t> Run() {
    CheckSize();
    const std::vector<Table> codes = OperatorCodes();
    std::vector<Table> operators;
    for (const NetOperator& op : net_.operators) operators.push_back(WriteOperator(op));
    // Buffer 0 is the empty one of tensors that are computed.
    std::vector<Table> buffers = {WriteBuffer({})};
    std::vector<Table> tensors;
    for (const NetTensor& tensor : net_.tensors) {
      const auto buffer = static_cast<uint32_t>(tensor.data.empty() ? 0 : buffers.size());
      if (buffer > 0) buffers.push_back(WriteBuffer(tensor.data));
      tensors.push_back(WriteTensor(tensor, buffer));
    }
    const Table subgraph = WriteSubgraph(tensors, operators);
    const auto code_list = builder_.CreateVector(codes);
    const auto subgraphs = builder_.CreateVector(std::vector<Table>{subgraph});
    const auto description = builder_.CreateString("requant");
    const auto buffer_list = builder_.CreateVector(buffers);
    using Field = field::Model;
    const auto start = builder_.StartTable();
    builder_.AddElement<uint32_t>(Slot(Field::kVersion), 3, 0);
    builder_.AddOffset(Slot(Field::kOperatorCodes), code_list);
    builder_.AddOffset(Slot(Field::kSubgraphs), subgraphs);
    builder_.AddOffset(Slot(Field::kDescription), description);
    builder_.AddOffset(Slot(Field::kBuffers), buffer_list);
    builder_.Finish(Table(builder_.EndTable(start)), kIdentifier);
    return {builder_.GetBufferPointer(), builder_.GetBufferPointer() + builder_.GetSize()};
  }

 private:
  void CheckSize() const {
    uint64_t bytes = 0;
    for (const NetTensor& tensor : net_.tensors) bytes += tensor.data.bytes() + 256;
    if (bytes <= kMostConstantBytes) return;
    Fail(ErrorCode::kUnsupported, RQ_LATE_TEXT("the weights exceed the 2 GB of a TFLite file"),
         {.hint = RQ_LATE_TEXT("Quantize the weights, or write ONNX.")});
  }

  std::vector<Table> OperatorCodes() {
    std::vector<Table> codes;
    for (const NetOperator& op : net_.operators) {
      const std::pair<Builtin, int32_t> key{op.op, VersionOf(net_, op)};
      if (!code_index_.try_emplace(key, code_index_.size()).second) continue;
      using Field = field::OperatorCode;
      const auto number = static_cast<int32_t>(op.op);
      const auto start = builder_.StartTable();
      // Readers of before 127 operators look at the byte.
      builder_.AddElement<int8_t>(Slot(Field::kDeprecatedBuiltinCode),
                                  static_cast<int8_t>(std::min(number, 127)), 0);
      builder_.AddElement<int32_t>(Slot(Field::kVersion), key.second, 1);
      builder_.AddElement<int32_t>(Slot(Field::kBuiltinCode), number, 0);
      codes.emplace_back(builder_.EndTable(start));
    }
    return codes;
  }

  Table WriteOptions(const NetOperator& op) {
    std::vector<Offset<flatbuffers::Vector<int32_t>>> lists;
    for (const Option& option : op.options) {
      if (option.kind == Option::Kind::kInts) lists.push_back(builder_.CreateVector(option.list));
    }
    size_t next_list = 0;
    const auto start = builder_.StartTable();
    for (const Option& option : op.options) {
      const voffset_t slot = Slot(option.slot);
      switch (option.kind) {
        case Option::Kind::kByte:
          builder_.AddElement<int8_t>(slot, static_cast<int8_t>(option.number), 0);
          break;
        case Option::Kind::kFlag:
          builder_.AddElement<uint8_t>(slot, static_cast<uint8_t>(option.number), 0);
          break;
        case Option::Kind::kInt:
          builder_.AddElement<int32_t>(slot, option.number, 0);
          break;
        case Option::Kind::kReal:
          builder_.AddElement<float>(slot, option.real, 0);
          break;
        case Option::Kind::kInts:
          builder_.AddOffset(slot, lists[next_list++]);
          break;
      }
    }
    return Table(builder_.EndTable(start));
  }

  Table WriteOperator(const NetOperator& op) {
    const uint8_t type = RowOf(op.op).options;
    const Table options = type == 0 ? Table() : WriteOptions(op);
    const auto inputs = builder_.CreateVector(op.inputs);
    const auto outputs = builder_.CreateVector(op.outputs);
    using Field = field::Operator;
    const auto start = builder_.StartTable();
    const auto code = static_cast<uint32_t>(code_index_.at({op.op, VersionOf(net_, op)}));
    builder_.AddElement<uint32_t>(Slot(Field::kOpcodeIndex), code, 0);
    builder_.AddOffset(Slot(Field::kInputs), inputs);
    builder_.AddOffset(Slot(Field::kOutputs), outputs);
    if (type != 0) {
      // The type of a union is the field before it.
      const auto options_type = static_cast<uint16_t>(Field::kBuiltinOptions) - 1;
      builder_.AddElement<uint8_t>(Slot(options_type), type, 0);
      builder_.AddOffset(Slot(Field::kBuiltinOptions), options);
    }
    return Table(builder_.EndTable(start));
  }

  Table WriteBuffer(const Tensor& data) {
    const bool has = !data.empty();
    Offset<flatbuffers::Vector<uint8_t>> bytes;
    if (has) {
      builder_.ForceVectorAlignment(data.bytes(), 1, 16);  // schema.fbs: force_align: 16
      bytes = builder_.CreateVector(static_cast<const uint8_t*>(data.raw()), data.bytes());
    }
    const auto start = builder_.StartTable();
    if (has) builder_.AddOffset(Slot(field::Buffer::kData), bytes);
    return Table(builder_.EndTable(start));
  }

  Table WriteGrid(const Grid& grid) {
    using Field = field::QuantizationParameters;
    const auto scales = builder_.CreateVector(grid.scales);
    const auto zeros = builder_.CreateVector(grid.zeros);
    const auto start = builder_.StartTable();
    builder_.AddOffset(Slot(Field::kScale), scales);
    builder_.AddOffset(Slot(Field::kZeroPoint), zeros);
    builder_.AddElement<int32_t>(Slot(Field::kQuantizedDimension), grid.axis, 0);
    return Table(builder_.EndTable(start));
  }

  Table WriteTensor(const NetTensor& tensor, uint32_t buffer) {
    std::vector<int32_t> dims;
    for (const int64_t dim : tensor.shape) dims.push_back(static_cast<int32_t>(dim));
    const auto shape = builder_.CreateVector(dims);
    const auto name = builder_.CreateString(tensor.name);
    const Table grid = tensor.grid.scales.empty() ? Table() : WriteGrid(tensor.grid);
    using Field = field::Tensor;
    const auto start = builder_.StartTable();
    builder_.AddOffset(Slot(Field::kShape), shape);
    builder_.AddElement<int8_t>(Slot(Field::kType), static_cast<int8_t>(tensor.type), 0);
    builder_.AddElement<uint32_t>(Slot(Field::kBuffer), buffer, 0);
    builder_.AddOffset(Slot(Field::kName), name);
    if (!grid.IsNull()) builder_.AddOffset(Slot(Field::kQuantization), grid);
    return Table(builder_.EndTable(start));
  }

  Table WriteSubgraph(const std::vector<Table>& tensors, const std::vector<Table>& operators) {
    const auto tensor_list = builder_.CreateVector(tensors);
    const auto inputs = builder_.CreateVector(net_.inputs);
    const auto outputs = builder_.CreateVector(net_.outputs);
    const auto operator_list = builder_.CreateVector(operators);
    const auto name = builder_.CreateString("main");
    using Field = field::SubGraph;
    const auto start = builder_.StartTable();
    builder_.AddOffset(Slot(Field::kTensors), tensor_list);
    builder_.AddOffset(Slot(Field::kInputs), inputs);
    builder_.AddOffset(Slot(Field::kOutputs), outputs);
    builder_.AddOffset(Slot(Field::kOperators), operator_list);
    builder_.AddOffset(Slot(Field::kName), name);
    return Table(builder_.EndTable(start));
  }

  const Net& net_;
  FlatBufferBuilder builder_{1 << 16};
  std::map<std::pair<Builtin, int32_t>, size_t> code_index_;
};

}  // namespace

const char* BuiltinName(Builtin op) { return RowOf(op).name; }

std::vector<uint8_t> Serialize(const Net& net) { return Serializer(net).Run(); }

}  // namespace requant::tflite
