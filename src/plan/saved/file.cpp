#include "plan/saved/file.h"

#include <bit>
#include <cstddef>
#include <cstring>

#include "base/aligned_buffer.h"
#include "base/checked_math.h"
#include "plan/saved/build_id.h"

namespace requant {
namespace {

constexpr char kMagic[8] = {'\x93', 'R', 'Q', 'P', 'L', 'A', 'N', '\n'};
constexpr uint32_t kVersion = 12;

struct Header {
  char magic[8];
  uint32_t version;
  uint8_t pointer_bytes;
  SavedKind kind;
  uint8_t threads;
  // 1: the code of some steps is among the extended operators; the loader (web/model/plan_file.ts)
  // reads this
  uint8_t operators;
  uint64_t bytes;     // size of the whole file
  uint64_t checksum;  // covers all bytes after the header, kind and operators
  char build[32];
};
static_assert(sizeof(Header) == 64);
static_assert(offsetof(Header, operators) == 15, "web/model/plan_file.ts reads it there");

/// Every iteration is a bijection of the word it takes in, so no single damaged word goes
/// unnoticed.
uint64_t Checksum(const Header& header, std::span<const uint8_t> bytes) {
  constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio, odd
  const uint64_t form = uint64_t{header.operators} << 8 | static_cast<uint8_t>(header.kind);
  uint64_t lanes[4] = {1, 2, form, bytes.size()};
  size_t at = 0;
  for (; at + 32 <= bytes.size(); at += 32) {
    for (size_t lane = 0; lane < 4; ++lane) {
      uint64_t word;
      std::memcpy(&word, bytes.data() + at + lane * 8, 8);
      lanes[lane] = std::rotl(lanes[lane] ^ word, 29) * kFactor;
    }
  }
  for (; at < bytes.size(); ++at) lanes[0] = std::rotl(lanes[0] ^ bytes[at], 29) * kFactor;
  uint64_t sum = 0;
  for (const uint64_t lane : lanes) sum = std::rotl(sum ^ lane, 29) * kFactor;
  return sum;
}

size_t PaddedBlob(size_t bytes) {
  return CheckedAlign(CheckedAdd(bytes, kReadAhead), AlignedBuffer::kAlignment);
}

/// A dimension as a number; -1 is unknown. A plan does not need the names of symbols.
void ShapeFields(PlanArchive& archive, std::optional<SymbolicShape>& shape) {
  uint8_t known = shape.has_value() ? 1 : 0;
  std::vector<int64_t> dims;
  for (const Dim& dim : shape.value_or(SymbolicShape{}))
    dims.push_back(dim.known() ? dim.value : -1);
  archive.Fields(known, dims);
  if (!archive.reading() || known == 0) return;
  shape.emplace();
  for (const int64_t dim : dims) {
    if (dim < -1) DamagedPlan("a shape is negative");
    shape->push_back(dim < 0 ? Dim() : Dim(dim));
  }
}

}  // namespace

SavedWriter::SavedWriter(const std::vector<BlobRange>& blobs) : archive(&fields_), blobs_(blobs) {
  std::vector<uint64_t> sizes;
  for (const BlobRange& blob : blobs) {
    archive.blobs.push_back(blob.data());
    sizes.push_back(blob.size());
  }
  archive.Fields(sizes);
}

std::vector<uint8_t> SavedWriter::Finish(SavedKind kind, int threads, bool operators) const {
  const size_t start = CheckedAlign(sizeof(Header) + fields_.size(), AlignedBuffer::kAlignment);
  size_t total = start;
  for (const BlobRange& blob : blobs_) total = CheckedAdd(total, PaddedBlob(blob.size()));
  std::vector<uint8_t> file;
  file.reserve(total);
  file.resize(sizeof(Header));
  file.insert(file.end(), fields_.begin(), fields_.end());
  file.resize(start);
  for (const BlobRange& blob : blobs_) {
    const size_t end = file.size() + PaddedBlob(blob.size());
    file.insert(file.end(), blob.begin(), blob.end());
    file.resize(end);
  }
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.pointer_bytes = sizeof(void*);
  header.kind = kind;
  header.threads = static_cast<uint8_t>(threads);
  header.operators = operators ? 1 : 0;
  header.bytes = file.size();
  header.checksum = Checksum(header, std::span(file).subspan(sizeof(Header)));
  std::memcpy(header.build, kBuildId, sizeof header.build);
  std::memcpy(file.data(), &header, sizeof header);
  return file;
}

SavedFile OpenSaved(const SharedBytes& file, int threads) {
  Header header;
  if (file.bytes.size() < sizeof header) DamagedPlan("it ends too early");
  std::memcpy(&header, file.bytes.data(), sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) DamagedPlan("it is no plan");
  if (header.version != kVersion || header.pointer_bytes != sizeof(void*) ||
      std::memcmp(header.build, kBuildId, sizeof header.build) != 0) {
    ForeignPlan("another version or variant saved it");
  }
  if (header.threads != threads) ForeignPlan("it was made for another number of threads");
  if (header.bytes != file.bytes.size()) DamagedPlan("its size is wrong");
  if (header.operators > 1 || header.kind > SavedKind::kProgram) DamagedPlan("its header is wrong");
  std::span<const uint8_t> body = file.bytes.subspan(sizeof header);
  if (header.checksum != Checksum(header, body)) DamagedPlan("the checksum is wrong");

  const uint8_t* base = file.bytes.data();
  std::shared_ptr<const void> owner = file.owner;
  if (reinterpret_cast<uintptr_t>(base) % AlignedBuffer::kAlignment != 0) {
    auto copy = std::make_shared<AlignedBuffer>(file.bytes.size());
    std::memcpy(copy->data(), base, file.bytes.size());
    base = copy->data();
    owner = std::move(copy);
    body = {base + sizeof header, body.size()};
  }
  SavedFile out{header.kind, header.operators != 0, threads, std::move(owner),
                {},          PlanArchive(body)};
  out.archive.operators = out.operators;
  std::vector<uint64_t> sizes;
  out.archive.Fields(sizes);
  // The blobs lie at the end of the file, one after the other.
  size_t total = 0;
  for (const uint64_t size : sizes) {
    if (size > body.size()) DamagedPlan("its weights are larger than the file");
    total = CheckedAdd(total, PaddedBlob(static_cast<size_t>(size)));
  }
  if (total > body.size()) DamagedPlan("its weights are larger than the file");
  const uint8_t* at = base + file.bytes.size() - total;
  for (const uint64_t size : sizes) {
    out.archive.blobs.push_back(at);
    out.blobs.emplace_back(at, static_cast<size_t>(size));
    at += PaddedBlob(static_cast<size_t>(size));
  }
  return out;
}

void InterfaceFields(PlanArchive& archive, Graph& graph) {
  std::vector<const Value*> inputs;
  for (const Value* input : graph.inputs()) {
    if (!input->is_constant()) inputs.push_back(input);
  }
  for (const bool is_input : {true, false}) {
    const uint32_t count = archive.Count(is_input ? inputs.size() : graph.outputs().size(), 1);
    for (uint32_t i = 0; i < count; ++i) {
      std::string name;
      ValueType type;
      if (!archive.reading()) {
        const Value* value = is_input ? inputs[i] : graph.outputs()[i];
        name = value->name;
        type = value->type;
      }
      archive.Fields(name, type.dtype);
      ShapeFields(archive, type.shape);
      if (!archive.reading()) continue;
      Value* value = graph.FindValue(name);
      if (value == nullptr) value = graph.AddValue(name, std::move(type));
      if (is_input) {
        graph.AddInput(value);
      } else {
        graph.AddOutput(value);
      }
    }
  }
}

}  // namespace requant
