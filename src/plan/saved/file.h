// The bytes of saved plans (plan/saved/save.h) and of saved programs of several plans
// (session/program.h).
//
//   header     64 bytes: magic, version, kind, threads, whether it needs the extended
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

/// A file that is written: list the fields, then Finish() makes the bytes.
class SavedWriter {
 public:
  /// The blobs must outlive the writer; the archive identifies them by their addresses.
  explicit SavedWriter(const std::vector<BlobRange>& blobs);
  SavedWriter(const SavedWriter&) = delete;
  SavedWriter& operator=(const SavedWriter&) = delete;

  PlanArchive archive;
  std::vector<uint8_t> Finish(SavedKind kind, int threads, bool operators) const;

 private:
  std::vector<uint8_t> fields_;
  const std::vector<BlobRange>& blobs_;
};

/// A file that is read.
struct SavedFile {
  SavedKind kind = SavedKind::kPlan;
  bool operators = false;
  int threads = 1;
  std::shared_ptr<const void> owner;  // owns the bytes that the blobs lie in
  std::vector<BlobRange> blobs;
  PlanArchive archive;  // positioned behind the sizes
};

/// Opens a saved file. Throws kInvalidModel for damaged bytes and for other kinds of files,
/// kUnsupported for another build, number of threads or kind of machine. Never reads outside the
/// file.
SavedFile OpenSaved(const SharedBytes& file, int threads);

/// Writes or reads the names, dtypes and shapes (as far as known) of the graph's inputs and
/// outputs.
void InterfaceFields(PlanArchive& archive, Graph& graph);

}  // namespace requant
