// A .tflite file as lists of tensors and operators, checked but not yet converted.
#pragma once

#include <flatbuffers/verifier.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tensor/shape.h"
#include "tensor/shared_bytes.h"
#include "tensor/tensor.h"
#include "tflite/schema.h"
#include "tflite/table_view.h"

namespace requant::tflite {

/// How the codes of a tensor stand for numbers: number = scale * (code - zero point).
struct Quantization {
  std::vector<float> scales;         // one, or one for each index of `axis`; empty: not quantized
  std::vector<int64_t> zero_points;  // as many as scales
  int64_t axis = 0;

  bool operator==(const Quantization&) const = default;
};

struct FileTensor {
  std::string name;  // never empty
  TensorType type = TensorType::kFloat32;
  DType dtype = DType::kUndefined;  // kUndefined: a type that this engine does not have
  SymbolicShape shape;              // open dimensions are unknown and have no name
  Quantization quantization;
  Tensor constant;  // empty() unless the file has its bytes; of sparse tensors the dense form
  bool variable = false;
};

struct FileOperator {
  int32_t code = 0;             // BuiltinOperator
  std::string custom;           // the name of a custom operator
  std::vector<int32_t> inputs;  // tensors; -1: left out
  std::vector<int32_t> outputs;
  TableView options;
  TableView options2;  // of the second union of options, which newer operators have
  std::span<const uint8_t> custom_options;
};

struct FileSubgraph {
  std::string name;
  std::vector<FileTensor> tensors;
  std::vector<int32_t> inputs;
  std::vector<int32_t> outputs;
  std::vector<FileOperator> operators;
};

/// A file that has been verified: every offset, index and size in it is sound. Options of operators
/// are verified when they are read. Tensors keep the file's bytes alive; options refer to this
/// object.
class File {
 public:
  /// Throws kInvalidModel (damaged bytes, indices or sizes beyond what they count, no subgraph) or
  /// kUnsupported (another version of the schema).
  explicit File(const SharedBytes& bytes, bool float_layers = false);
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const std::vector<FileSubgraph>& subgraphs() const { return subgraphs_; }
  const std::string& description() const { return description_; }
  /// Whether layers of dynamic range become products of floats.
  bool float_layers() const { return float_layers_; }

 private:
  void ReadBuffers(const TableView& model);
  FileTensor ReadTensor(const TableView& table, size_t index);
  FileSubgraph ReadSubgraph(const TableView& table, const std::vector<TableView>& codes);
  /// Counts what has been read. Throws kInvalidModel for lists that together are much longer than
  /// the file, because their tables share the same bytes again and again.
  void Spend(size_t elements);

  SharedBytes bytes_;
  std::unique_ptr<flatbuffers::Verifier> verifier_;
  std::vector<std::span<const uint8_t>> buffers_;
  std::vector<FileSubgraph> subgraphs_;
  std::string description_;
  bool float_layers_;
  size_t spent_ = 0;
};

/// The dense form of a tensor's bytes, `values`, whose positions `sparsity` (a SparsityParameters)
/// tells. Throws kInvalidModel for positions beyond the shape.
Tensor Densify(const TableView& sparsity, const std::string& name, DType dtype, const Shape& shape,
               std::span<const uint8_t> values);

/// Throws kInvalidModel; the file breaks a rule of the schema.
[[noreturn]] void InvalidTflite(std::string message, ErrorContext context = {});

}  // namespace requant::tflite
