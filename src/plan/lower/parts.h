// Divides steps among threads: planning divides them into parts, running divides their parameter
// blocks.
#pragma once

#include <initializer_list>
#include <type_traits>

#include "kernels/entry.h"
#include "kernels/geometry.h"
#include "plan/builder.h"

namespace requant {

/// Rows of a register tile of the convolutions: parts are whole tiles.
inline constexpr int64_t kConvTile = 4;
/// The least number of elements that elementwise kernels take at a time.
inline constexpr int64_t kElementTile = 64;
/// The least work of a part, below which starting it (about 5 us) costs more than it saves.
inline constexpr int64_t kMacsPerPart = 1 << 17;
inline constexpr int64_t kSlowMacsPerPart = 1 << 15;  // for depthwise kernels and pools
inline constexpr int64_t kElementsPerPart = 1 << 14;
/// The size of the largest parameter block of any kernel.
inline constexpr size_t kMaxParamsBytes = 576;

/// Sets step.parts: divides `total` units in tiles so that each part has at least `least` of the
/// step's `work`. A kernel without an entry (-1) is not divided.
void Divide(const PlanBuilder& builder, Step& step, int kernel, int64_t total, int64_t tile,
            int64_t work, int64_t least, std::initializer_list<PartField> fields);

/// Offsets of the row range and the workspace (0: none) in a parameter block.
struct RowOffsets {
  size_t begin, end, workspace;
};
/// Divides a step whose kernel computes a range of output pixels. Also makes step.workspace, with
/// `workspace_bytes` for every part, when the kernel has one.
void DivideRows(PlanBuilder& builder, Step& step, int kernel, const RowOffsets& offsets,
                int64_t rows, int64_t tile, int64_t work, int64_t least, size_t workspace_bytes);

template <typename Params>
void DivideRows(PlanBuilder& builder, Step& step, void (*run)(const Params*), int64_t rows,
                int64_t tile, int64_t work, int64_t least, size_t workspace_bytes = 0) {
  RowOffsets offsets{offsetof(Params, row_begin), offsetof(Params, row_end), 0};
  if constexpr (requires(Params params) { params.workspace; }) {
    offsets.workspace = offsetof(Params, workspace);
  }
  DivideRows(builder, step, KernelEntryOf(run), offsets, rows, tile, work, least, workspace_bytes);
}

/// Divides a step over contiguous elements: every element advances `in` and `out` by its bytes.
template <typename Params>
void DivideElements(const PlanBuilder& builder, Step& step, void (*run)(const Params*),
                    size_t count_offset, size_t count, size_t in_bytes, size_t out_bytes) {
  const auto total = static_cast<int64_t>(count);
  Divide(builder, step, KernelEntryOf(run), total, kElementTile, total, kElementsPerPart,
         {{PartField::Kind::kCount, count_offset, 0},
          {PartField::Kind::kPointer, offsetof(Params, in), in_bytes},
          {PartField::Kind::kPointer, offsetof(Params, out), out_bytes}});
}

/// Divides a step of two operands (BinaryF32Params). Elements have `bytes` bytes in operands,
/// `out_bytes` in the result.
template <typename Params>
void DivideBinary(const PlanBuilder& builder, Step& step, void (*run)(const Params*),
                  const Params& params, size_t bytes, size_t out_bytes) {
  using enum PartField::Kind;
  const auto work = static_cast<int64_t>(params.rows * params.cols);
  const bool by_rows = params.rows > 1;
  const size_t a = by_rows ? params.a_row_stride : static_cast<size_t>(params.a_step);
  const size_t b = by_rows ? params.b_row_stride : static_cast<size_t>(params.b_step);
  const size_t out = by_rows ? params.out_row_stride : 1;
  Divide(builder, step, KernelEntryOf(run),
         static_cast<int64_t>(by_rows ? params.rows : params.cols), by_rows ? 1 : kElementTile,
         work, kElementsPerPart,
         {{kCount, by_rows ? offsetof(Params, rows) : offsetof(Params, cols), 0},
          {kPointer, offsetof(Params, a), a * bytes},
          {kPointer, offsetof(Params, b), b * bytes},
          {kPointer, offsetof(Params, out), out * out_bytes}});
}

/// Has the context's threads compute a divided step with this parameter block; returns false when
/// the step is not divided or there are no threads.
bool RunDivided(const RunContext& context, const Parts& parts, const void* params, size_t bytes);

/// Runs the kernel on the whole step, by parts if it is divided.
template <typename Params>
void RunParts(const RunContext& context, const Parts& parts, void (*run)(const Params*),
              const Params& params) {
  static_assert(sizeof(Params) <= kMaxParamsBytes && std::is_trivially_copyable_v<Params>);
  if (!RunDivided(context, parts, &params, sizeof(Params))) run(&params);
}

}  // namespace requant
