#include "tflite/file.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/aligned_buffer.h"
#include "base/error.h"
#include "base/late_text.h"
#include "base/str_cat.h"
#include "tflite/tensor_types.h"

namespace requant::tflite {

using flatbuffers::uoffset_t;

void InvalidTflite(std::string message, ErrorContext context) {
  if (context.hint.empty())
    context.hint = RQ_LATE_TEXT("the file is damaged, or its writer is at fault");
  Fail(ErrorCode::kInvalidModel, std::move(message), std::move(context));
}

namespace {

/// Flatbuffers read numbers at their own alignment, relative to the start of the file.
SharedBytes Aligned(const SharedBytes& file) {
  if (reinterpret_cast<uintptr_t>(file.bytes.data()) % 16 == 0) return file;
  auto copy = std::make_shared<AlignedBuffer>(file.bytes.size());
  std::memcpy(copy->data(), file.bytes.data(), file.bytes.size());
  const std::span<const uint8_t> bytes(copy->data(), copy->size());
  return {std::move(copy), bytes};
}

flatbuffers::Verifier::Options Limits() {
  flatbuffers::Verifier::Options options;
  options.max_tables = std::numeric_limits<uoffset_t>::max();
  return options;
}

Quantization ReadQuantization(const TableView& table, const FileTensor& tensor) {
  using Field = field::QuantizationParameters;
  Quantization out;
  out.scales = table.List<float>(Field::kScale);
  if (out.scales.empty()) return {};
  out.zero_points = table.List<int64_t>(Field::kZeroPoint);
  if (out.zero_points.size() == 1) out.zero_points.resize(out.scales.size(), out.zero_points[0]);
  if (out.zero_points.empty()) out.zero_points.resize(out.scales.size(), 0);
  out.axis = table.Get<int32_t>(Field::kQuantizedDimension, 0);
  if (out.zero_points.size() != out.scales.size()) {
    InvalidTflite(
        StrCat(RQ_LATE_TEXT("tensor '"), tensor.name, RQ_LATE_TEXT("' has "), out.scales.size(),
               RQ_LATE_TEXT(" scales and "), out.zero_points.size(), RQ_LATE_TEXT(" zero points")),
        {.value = tensor.name});
  }
  for (const float scale : out.scales) {
    if (scale >= 0 && std::isfinite(scale)) continue;
    InvalidTflite(
        StrCat(RQ_LATE_TEXT("tensor '"), tensor.name, RQ_LATE_TEXT("' has the scale "), scale),
        {.value = tensor.name});
  }
  if (out.scales.size() == 1) {
    out.axis = 0;
    // Converters write a scale of 0 to tensors that are not quantized.
    if (out.scales[0] == 0) return {};
    return out;
  }
  const auto rank = static_cast<int64_t>(tensor.shape.size());
  if (out.axis < 0 || out.axis >= rank ||
      (tensor.shape[static_cast<size_t>(out.axis)].known() &&
       tensor.shape[static_cast<size_t>(out.axis)].value !=
           static_cast<int64_t>(out.scales.size()))) {
    InvalidTflite(
        StrCat(RQ_LATE_TEXT("the "), out.scales.size(), RQ_LATE_TEXT(" scales of tensor '"),
               tensor.name, RQ_LATE_TEXT("' do not fit its dimension "), out.axis),
        {.value = tensor.name});
  }
  return out;
}

void CheckIndices(const std::vector<int32_t>& indices, size_t count, int32_t least,
                  const std::string& whose) {
  for (const int32_t index : indices) {
    if (index >= least && (index < 0 || static_cast<size_t>(index) < count)) continue;
    InvalidTflite(
        StrCat(whose, RQ_LATE_TEXT(" names tensor "), index, RQ_LATE_TEXT(" of "), count));
  }
}

}  // namespace

File::File(const SharedBytes& bytes, bool float_layers)
    : bytes_(Aligned(bytes)), float_layers_(float_layers) {
  using Field = field::Model;
  const std::span<const uint8_t> all = bytes_.bytes;
  // Bytes behind the first 2 GB hold buffers only.
  const size_t readable = std::min<size_t>(all.size(), FLATBUFFERS_MAX_BUFFER_SIZE - 1);
  verifier_ = std::make_unique<flatbuffers::Verifier>(all.data(), readable, Limits());
  const uoffset_t root = verifier_->VerifyOffset(0);
  if (all.size() < 8 || root == 0) FailDamaged();
  const TableView model(*verifier_, all.data() + root);
  const auto version = model.Get<uint32_t>(Field::kVersion, 0);
  if (version != 3) {
    Fail(ErrorCode::kUnsupported,
         StrCat(RQ_LATE_TEXT("version "), version, RQ_LATE_TEXT(" of TFLite's schema")),
         {.hint = RQ_LATE_TEXT("convert the model with a newer TensorFlow")});
  }
  description_ = model.Text(Field::kDescription);
  ReadBuffers(model);
  const std::vector<TableView> codes = model.Children(Field::kOperatorCodes);
  for (const TableView& subgraph : model.Children(Field::kSubgraphs)) {
    subgraphs_.push_back(ReadSubgraph(subgraph, codes));
  }
  if (subgraphs_.empty()) InvalidTflite(RQ_LATE_TEXT("the file has no subgraph"));
}

void File::ReadBuffers(const TableView& model) {
  using Field = field::Buffer;
  for (const TableView& buffer : model.Children(field::Model::kBuffers)) {
    const auto offset = buffer.Get<uint64_t>(Field::kOffset, 0);
    const auto size = buffer.Get<uint64_t>(Field::kSize, 0);
    // Offsets of 0 and 1 mean that the bytes are in the flatbuffer (schema.fbs, Buffer).
    if (offset <= 1) {
      buffers_.push_back(buffer.Bytes(Field::kData));
      continue;
    }
    if (offset > bytes_.bytes.size() || size > bytes_.bytes.size() - offset) {
      InvalidTflite(
          StrCat(RQ_LATE_TEXT("buffer "), buffers_.size(), RQ_LATE_TEXT(" ends beyond the file")));
    }
    buffers_.push_back(
        bytes_.bytes.subspan(static_cast<size_t>(offset), static_cast<size_t>(size)));
  }
}

void File::Spend(size_t elements) {
  spent_ += elements;
  if (spent_ / 16 > bytes_.bytes.size())
    InvalidTflite(RQ_LATE_TEXT("the file's lists share their bytes"));
}

FileTensor File::ReadTensor(const TableView& table, size_t index) {
  using Field = field::Tensor;
  FileTensor tensor;
  tensor.name = table.Text(Field::kName);
  if (tensor.name.empty()) tensor.name = StrCat(RQ_LATE_TEXT("tensor_"), index);
  tensor.type = static_cast<TensorType>(table.Get<int8_t>(Field::kType, 0));
  tensor.dtype = DTypeOf(tensor.type);
  tensor.variable = table.Flag(Field::kIsVariable);
  const auto dims = table.List<int32_t>(Field::kShape);
  const auto signature = table.List<int32_t>(Field::kShapeSignature);
  Spend(16 + tensor.name.size() + dims.size());
  const bool has_signature = signature.size() == dims.size();
  for (size_t i = 0; i < dims.size(); ++i) {
    const int32_t dim = has_signature ? signature[i] : dims[i];
    if (dim < -1) {
      InvalidTflite(
          StrCat(RQ_LATE_TEXT("tensor '"), tensor.name, RQ_LATE_TEXT("' has a dimension of "), dim),
          {.value = tensor.name});
    }
    tensor.shape.push_back(dim < 0 ? Dim() : Dim(dim));
  }
  const TableView quantization = table.Child(Field::kQuantization);
  if (quantization) tensor.quantization = ReadQuantization(quantization, tensor);
  Spend(tensor.quantization.scales.size());
  const auto buffer = table.Get<uint32_t>(Field::kBuffer, 0);
  if (buffer >= buffers_.size() && buffer != 0) {
    InvalidTflite(StrCat(RQ_LATE_TEXT("tensor '"), tensor.name, RQ_LATE_TEXT("' names buffer "),
                         buffer, RQ_LATE_TEXT(" of "), buffers_.size()),
                  {.value = tensor.name});
  }
  const std::span<const uint8_t> data =
      buffer < buffers_.size() ? buffers_[buffer] : std::span<const uint8_t>();
  if (data.empty() || tensor.dtype == DType::kUndefined) return tensor;
  const Shape shape(dims.begin(), dims.end());
  const auto count = static_cast<size_t>(NumElements(shape));
  tensor.shape = ToSymbolic(shape);
  const TableView sparsity = table.Child(Field::kSparsity);
  if (sparsity) {
    tensor.constant = Densify(sparsity, tensor.name, tensor.dtype, shape, data);
    return tensor;
  }
  const size_t wanted = DTypeBytes(tensor.dtype, count);
  if (data.size() != wanted) {
    InvalidTflite(StrCat(RQ_LATE_TEXT("tensor '"), tensor.name, RQ_LATE_TEXT("' of "),
                         DTypeName(tensor.dtype), ShapeToString(shape), RQ_LATE_TEXT(" has "),
                         data.size(), RQ_LATE_TEXT(" bytes instead of "), wanted),
                  {.value = tensor.name});
  }
  tensor.constant = Tensor::View(tensor.dtype, shape, data, bytes_.owner);
  return tensor;
}

FileSubgraph File::ReadSubgraph(const TableView& table, const std::vector<TableView>& codes) {
  using Field = field::SubGraph;
  FileSubgraph out;
  out.name = table.Text(Field::kName);
  const std::vector<TableView> tensors = table.Children(Field::kTensors);
  for (size_t i = 0; i < tensors.size(); ++i) out.tensors.push_back(ReadTensor(tensors[i], i));
  out.inputs = table.List<int32_t>(Field::kInputs);
  out.outputs = table.List<int32_t>(Field::kOutputs);
  CheckIndices(out.inputs, tensors.size(), 0, RQ_LATE_TEXT("the list of inputs"));
  CheckIndices(out.outputs, tensors.size(), 0, RQ_LATE_TEXT("the list of outputs"));
  for (const TableView& entry : table.Children(Field::kOperators)) {
    FileOperator op;
    const auto index = entry.Get<uint32_t>(field::Operator::kOpcodeIndex, 0);
    if (index >= codes.size()) {
      InvalidTflite(StrCat(RQ_LATE_TEXT("an operator has the code "), index, RQ_LATE_TEXT(" of "),
                           codes.size()));
    }
    const TableView& code = codes[index];
    // Numbers beyond 127 do not fit the older field (schema.fbs, OperatorCode).
    const int32_t old = code.Get<int8_t>(field::OperatorCode::kDeprecatedBuiltinCode, 0);
    op.code = std::max(old, code.Get<int32_t>(field::OperatorCode::kBuiltinCode, 0));
    op.custom = code.Text(field::OperatorCode::kCustomCode);
    op.inputs = entry.List<int32_t>(field::Operator::kInputs);
    op.outputs = entry.List<int32_t>(field::Operator::kOutputs);
    op.options = entry.Child(field::Operator::kBuiltinOptions);
    op.options2 = entry.Child(field::Operator::kBuiltinOptions2);
    op.custom_options = entry.Bytes(field::Operator::kCustomOptions);
    const std::string whose = StrCat(RQ_LATE_TEXT("operator "), out.operators.size());
    Spend(16 + op.inputs.size() + op.outputs.size() + op.custom.size());
    CheckIndices(op.inputs, tensors.size(), -1, whose);
    CheckIndices(op.outputs, tensors.size(), -1, whose);
    out.operators.push_back(std::move(op));
  }
  return out;
}

}  // namespace requant::tflite
