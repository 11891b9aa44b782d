#include "onnx/write.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/str_cat.h"
#include "ir/verify.h"
#include "onnx/tags.h"
#include "onnx/write_graph.h"
#include "tensor/text.h"

namespace requant {
namespace {

std::span<const uint8_t> RawBytes(const Tensor& tensor) {
  return {static_cast<const uint8_t*>(tensor.raw()), tensor.bytes()};
}

/// The key and the length of a field of `size` bytes.
template <typename Tag>
std::string FieldHead(Tag tag, uint64_t size) {
  constexpr uint64_t kLengthDelimited = 2;
  std::string out;
  for (uint64_t number : {(static_cast<uint64_t>(tag) << 3) | kLengthDelimited, size}) {
    for (; number > 127; number >>= 7) out += static_cast<char>((number & 127) | 128);
    out += static_cast<char>(number);
  }
  return out;
}

/// Puts the bytes of constants into a second file.
class ExternalWriter {
 public:
  ExternalWriter(const std::string& location, FilePieces& data)
      : location_(location), data_(data) {}

  bool Takes(const Tensor& tensor) const {
    return !location_.empty() && !IsText(tensor.dtype()) && tensor.bytes() >= kLeast;
  }
  /// The fields of the TensorProto that say where its data are.
  std::string Put(const Tensor& tensor) {
    using Tag = onnx_tags::TensorProto;
    // Offsets of pages let readers map large tensors (onnx docs/ExternalData.md).
    const uint64_t step = tensor.bytes() >= kLarge ? kPage : kAlignment;
    data_.Add(std::string(static_cast<size_t>((step - data_.size() % step) % step), '\0'));
    std::string out;
    MessageWriter writer(out);
    writer.Bytes(Tag::kExternalData, EntryBytes("location", location_));
    writer.Bytes(Tag::kExternalData, EntryBytes("offset", StrCat(data_.size())));
    writer.Bytes(Tag::kExternalData, EntryBytes("length", StrCat(tensor.bytes())));
    writer.Int(Tag::kDataLocation, 1);
    data_.AddView(RawBytes(tensor));
    return out;
  }

 private:
  static constexpr uint64_t kLeast = 1024, kLarge = 1 << 20, kPage = 4096, kAlignment = 64;
  const std::string& location_;
  FilePieces& data_;
};

}  // namespace

int IrVersionOfOpset(int opset) {
  // onnx/docs/Versioning.md: ONNX 1.0-1.2 IR 3, 1.4 (opset 9) IR 4, 1.5 (10) IR 5, 1.6 (11) IR 6,
  // 1.7-1.9 (12-14) IR 7, 1.10-1.12 (15-17) IR 8, 1.14 (19) IR 9, 1.16 (21) IR 10, 1.18 (23) IR 11,
  // 1.19 (24) IR 12, 1.20 (25) IR 13. Initializers that are no inputs need IR 4.
  struct Row {
    int opset;
    int ir_version;
  };
  constexpr Row kRows[] = {{25, 13}, {24, 12}, {23, 11}, {21, 10}, {19, 9},
                           {15, 8},  {12, 7},  {11, 6},  {10, 5}};
  for (const Row& row : kRows) {
    if (opset >= row.opset) return row.ir_version;
  }
  return 4;
}

void FilePieces::Add(std::string_view text) {
  texts_ += text;
  parts_.push_back({nullptr, text.size()});
  size_ += text.size();
}

void FilePieces::AddView(std::span<const uint8_t> bytes) {
  parts_.push_back({bytes.data(), bytes.size()});
  size_ += bytes.size();
}

void FilePieces::SetHead(std::string text) {
  size_ += text.size() - head_.size();
  head_ = std::move(text);
}

std::vector<std::span<const uint8_t>> FilePieces::Parts() const {
  std::vector<std::span<const uint8_t>> out;
  out.push_back({reinterpret_cast<const uint8_t*>(head_.data()), head_.size()});
  const auto* text = reinterpret_cast<const uint8_t*>(texts_.data());
  for (const Part& part : parts_) {
    out.push_back({part.view ? part.view : text, part.size});
    if (!part.view) text += part.size;
  }
  return out;
}

OnnxPieces WriteOnnxPieces(const Graph& graph, const WriteOptions& options) {
  using Tag = onnx_tags::ModelProto;
  VerifyGraph(graph);
  OnnxPieces out;
  std::string head;
  MessageWriter writer(head);
  const auto onnx = graph.opsets.find("");
  writer.Int(Tag::kIrVersion, IrVersionOfOpset(onnx == graph.opsets.end() ? 1 : onnx->second));
  if (!options.producer_name.empty()) writer.Bytes(Tag::kProducerName, options.producer_name);
  if (!options.producer_version.empty()) {
    writer.Bytes(Tag::kProducerVersion, options.producer_version);
  }
  FilePieces& body = out.model;
  ExternalWriter external(options.external_data, out.data);
  body.Add(GraphHead(graph));
  ForEachInitializer(graph, [&](const std::string& name, const Tensor& tensor) {
    constexpr auto kInitializer = onnx_tags::GraphProto::kInitializer;
    const bool text = IsText(tensor.dtype());
    std::string message = text ? TensorBytes(name, tensor) : TensorHead(name, tensor);
    const bool apart = external.Takes(tensor);
    if (apart) message += external.Put(tensor);
    const bool raw = !text && !apart;
    const uint64_t bytes = tensor.bytes();
    if (raw) message += FieldHead(onnx_tags::TensorProto::kRawData, bytes);
    body.Add(FieldHead(kInitializer, message.size() + (raw ? bytes : 0)) + message);
    if (raw) body.AddView(RawBytes(tensor));
  });
  body.Add(GraphTail(graph));
  std::string tail;
  MessageWriter tail_writer(tail);
  for (const auto& [domain, version] : graph.opsets) {
    std::string bytes;
    MessageWriter opset(bytes);
    opset.Bytes(onnx_tags::OperatorSetIdProto::kDomain, domain);
    opset.Int(onnx_tags::OperatorSetIdProto::kVersion, version);
    tail_writer.Bytes(Tag::kOpsetImport, bytes);
  }
  for (const auto& [key, value] : graph.metadata) {
    tail_writer.Bytes(Tag::kMetadataProps, EntryBytes(key, value));
  }
  head += FieldHead(Tag::kGraph, body.size());
  body.SetHead(std::move(head));
  body.Add(std::move(tail));
  constexpr uint64_t kEndOfProtobuf = 0x7fffffff;  // protobuf.dev, "Proto Limits"
  if (body.size() > kEndOfProtobuf) {
    Fail(ErrorCode::kUnsupported,
         StrCat("a file of ", body.size(), " bytes exceeds the 2 GB of ONNX"),
         {.hint = "keep the weights in a second file: toOnnxFiles(), or save() with externalData"});
  }
  return out;
}

std::vector<uint8_t> WriteOnnx(const Graph& graph, const WriteOptions& options) {
  const OnnxPieces pieces = WriteOnnxPieces(graph, options);
  std::vector<uint8_t> out;
  out.reserve(static_cast<size_t>(pieces.model.size()));
  for (const auto& part : pieces.model.Parts()) out.insert(out.end(), part.begin(), part.end());
  return out;
}

std::vector<uint8_t> WriteTensorFile(const std::string& name, const Tensor& tensor) {
  const std::string bytes = TensorBytes(name, tensor);
  return {bytes.begin(), bytes.end()};
}

}  // namespace requant
