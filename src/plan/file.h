// The bytes of what was saved: plans (plan/save.h) and programs of several (session/program.h).
//
//   header     64 bytes: magic, version, kind, threads, whether it needs the rarer
//              operators, size, checksum of all that follows, build
//   fields     sizes of the blobs, then plan/archive.h
//   blobs      weights, constants, files in the file: aligned, each followed by kReadAhead
//              spare bytes
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "onnx/tensor_proto.h"
#include "plan/archive.h"

namespace requant {

enum class SavedKind : uint8_t { kPlan, kProgram };

using BlobRange = std::span<const uint8_t>;

/// A file being written: the fields are listed, then Finish() makes the bytes.
class SavedWriter {
 public:
  /// The blobs must stay until the end; the archive names them by where they are.
  explicit SavedWriter(const std::vector<BlobRange>& blobs);
  SavedWriter(const SavedWriter&) = delete;
  SavedWriter& operator=(const SavedWriter&) = delete;

  PlanArchive archive;
  std::vector<uint8_t> Finish(SavedKind kind, int threads, bool operators) const;

 private:
  std::vector<uint8_t> fields_;
  const std::vector<BlobRange>& blobs_;
};

/// A file being read.
struct SavedFile {
  SavedKind kind = SavedKind::kPlan;
  bool operators = false;
  int threads = 1;
  std::shared_ptr<const void> owner;  // of the bytes that the blobs lie in
  std::vector<BlobRange> blobs;
  PlanArchive archive;  // behind the sizes
};

/// Throws kInvalidModel for bytes that are damaged or nothing of this, and kUnsupported for another
/// build, number of threads or kind of machine; never reads outside of the file.
SavedFile OpenSaved(const SharedBytes& file, int threads);

/// Names, dtypes and shapes (as far as they are known) of the graph's inputs and outputs.
void InterfaceFields(PlanArchive& archive, Graph& graph);

}  // namespace requant
