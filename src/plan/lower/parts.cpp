#include "plan/lower/parts.h"

#include <algorithm>
#include <cstring>

#include "base/checked_math.h"

namespace requant {

using Kind = PartField::Kind;

void Divide(const PlanBuilder& builder, Step& step, int kernel, int64_t total, int64_t tile,
            int64_t work, int64_t least, std::initializer_list<PartField> fields) {
  if (kernel < 0) return;
  Parts& parts = step.parts;
  int64_t most = std::min(
      {int64_t{builder.options().threads}, int64_t{kMaxThreads}, total / tile, work / least});
  const Tuned* tuned = builder.TunedFor(step.tuning);
  if (tuned != nullptr && tuned->threads > 0) most = std::min(most, int64_t{tuned->threads});
  if (most < 2) return;
  parts.kernel = kernel;
  parts.count = static_cast<int>(most);
  parts.total = total;
  parts.tile = tile;
  std::copy(fields.begin(), fields.end(), parts.fields.begin());
}

void DivideRows(PlanBuilder& builder, Step& step, int kernel, const RowOffsets& offsets,
                int64_t rows, int64_t tile, int64_t work, int64_t least, size_t workspace_bytes) {
  const size_t stride =
      CheckedAlign(CheckedAdd(workspace_bytes, kReadAhead), AlignedBuffer::kAlignment);
  const bool has_workspace = offsets.workspace != 0;
  Divide(builder, step, kernel, rows, tile, work, least,
         {{Kind::kBegin, offsets.begin, 0},
          {Kind::kEnd, offsets.end, 0},
          {has_workspace ? Kind::kWorkspace : Kind::kNone, offsets.workspace, stride}});
  if (!has_workspace) return;
  const auto more = static_cast<size_t>(step.parts.count - 1);
  step.workspace = builder.Workspace(CheckedAdd(CheckedMul(stride, more), workspace_bytes));
}

bool RunDivided(const RunContext& context, const Parts& parts, const void* params, size_t bytes) {
  ParallelRunner* runner = context.runner();
  if (parts.count < 2 || runner == nullptr || runner->threads() < parts.count) return false;
  alignas(16) uint8_t blocks[kMaxThreads][kMaxParamsBytes];
  const void* pointers[kMaxThreads];
  for (int part = 0; part < parts.count; ++part) {
    uint8_t* block = blocks[part];
    std::memcpy(block, params, bytes);
    const int64_t begin = parts.Begin(part);
    const int64_t end = parts.Begin(part + 1);
    for (const PartField& field : parts.fields) {
      uint8_t* at = block + field.offset;
      if (field.kind == Kind::kBegin || field.kind == Kind::kEnd) {
        const auto value = static_cast<int32_t>(field.kind == Kind::kBegin ? begin : end);
        std::memcpy(at, &value, sizeof(value));
      } else if (field.kind != Kind::kNone) {
        size_t value;  // as wide as a pointer
        std::memcpy(&value, at, sizeof(value));
        if (field.kind == Kind::kCount) value = static_cast<size_t>(end - begin);
        if (field.kind == Kind::kPointer) value += static_cast<size_t>(begin) * field.bytes;
        if (field.kind == Kind::kWorkspace) value += static_cast<size_t>(part) * field.bytes;
        std::memcpy(at, &value, sizeof(value));
      }
    }
    pointers[part] = block;
  }
  runner->Run(parts.kernel, pointers, parts.count);
  return true;
}

}  // namespace requant
