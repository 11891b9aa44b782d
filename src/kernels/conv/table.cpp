#include "kernels/conv/table.h"

#include "kernels/bitserial/pack.h"
#include "kernels/conv/pack.h"
#include "kernels/conv/reference.h"
#include "kernels/variant/missing.h"

namespace requant {
namespace {

bool Always(const ConvQ8Weights&, const ConvGeometry&) { return true; }
bool Never(const ConvQ8Weights&, const ConvGeometry&) { return false; }
bool AlwaysF32(const ConvGeometry&) { return true; }

constexpr ConvF32Kernel kF32Kernels[] = {
    {"conv_f32_scalar", "scalar", AlwaysF32, AlwaysF32, ConvWalk::kRows, conv::ScalarF32PackedSize,
     conv::ScalarF32Pack, conv::NoWorkspace, rq_conv_f32_scalar},
    {"conv_f32_vector", "simd128", AlwaysF32, AlwaysF32, ConvWalk::kPanels,
     conv::VectorF32PackedSize, conv::VectorF32Pack, conv::VectorF32Workspace, rq_conv_f32},
    {"conv_f32_lines", "simd128", conv::LinesF32Supports, conv::LinesF32Pays, ConvWalk::kRows,
     conv::VectorF32PackedSize, conv::VectorF32Pack, conv::LinesF32Workspace, rq_conv_f32_lines},
};

// Of the rows that a machine has, that support a layer and that pay, the planner takes the last. So
// they go from slow to fast as measured on x86-64 (GOPS of the inner loop): pairs 79, 7 bits 115,
// fewer bits 180 (Zen 4), whole bytes 254 where the machine multiplies them. Winograd's tiles take
// 4 of 9 products, 5 of 18, or 25 of 36. First layers, which gathering windows limits, go to the
// rows that read lines; the rows of fewer bits leave them alone. Counting bits rarely pays on x86,
// where WebAssembly's popcount of bytes takes several instructions; on a processor that has one
// (ARM), tune() may choose it more often.
constexpr ConvQ8Kernel kQ8Kernels[] = {
    {"conv_q8_scalar", "scalar", nullptr, Always, Always, ConvWalk::kRows, conv::ScalarQ8PackedSize,
     conv::ScalarQ8Pack, conv::NoWorkspace, rq_conv_q8_scalar},
    {"conv_q8_vector", "simd128", nullptr, Always, Always, ConvWalk::kPanels,
     conv::VectorQ8PackedSize, conv::VectorQ8Pack, conv::VectorQ8Workspace, rq_conv_q8},
    {"conv_q8_dot7", "relaxed", nullptr, conv::Dot7Supports, Always, ConvWalk::kPanels,
     conv::BytesPackedSize, conv::Dot7Pack, conv::Dot7Workspace, rq_conv_q8_dot7},
    {"conv_q8_lines", "simd128", nullptr, conv::LinesSupports, conv::LinesPays, ConvWalk::kRows,
     conv::LinesPackedSize, conv::LinesPack, conv::LinesWorkspace, rq_conv_q8_lines},
    {"conv_q8_dot7_lines", "relaxed", nullptr, conv::Dot7LinesSupports, conv::Dot7LinesPays,
     ConvWalk::kRows, conv::BytesLinesPackedSize, conv::Dot7LinesPack, conv::Dot7LinesWorkspace,
     rq_conv_q8_dot7_lines},
    {"conv_q8_winograd_pairs", "simd128", nullptr, conv::WinogradPairsSupports,
     conv::WinogradPairsPays, ConvWalk::kTwoLines, conv::WinogradPairsPackedSize,
     conv::WinogradPairsPack, conv::WinogradPairsWorkspace, rq_conv_q8_winograd_pairs},
    {"conv_q8_winograd_strided_pairs", "simd128", nullptr, conv::WinogradStridedPairsSupports,
     conv::WinogradStridedPairsPays, ConvWalk::kTwoLines, conv::WinogradPairsPackedSize,
     conv::WinogradPairsPack, conv::WinogradStridedPairsWorkspace,
     rq_conv_q8_winograd_strided_pairs},
    {"conv_q8_narrow_w", "relaxed", MissingLowBits, conv::NarrowWeightsSupports, conv::NarrowPays,
     ConvWalk::kPanels, conv::NarrowWeightsPackedSize, conv::NarrowWeightsPack,
     conv::NarrowWorkspace, rq_conv_q8_narrow},
    {"conv_q8_narrow_x", "relaxed", MissingLowBits, conv::NarrowInputsSupports, conv::NarrowPays,
     ConvWalk::kPanels, conv::NarrowInputsPackedSize, conv::NarrowInputsPack, conv::NarrowWorkspace,
     rq_conv_q8_narrow},
    {"conv_q8_dot8", "relaxed", MissingDot8, conv::Dot8Supports, Always, ConvWalk::kPanels,
     conv::BytesPackedSize, conv::Dot8Pack, conv::Dot8Workspace, rq_conv_q8_dot8},
    {"conv_q8_dot8_lines", "relaxed", MissingDot8, conv::Dot8LinesSupports, conv::Dot8LinesPays,
     ConvWalk::kRows, conv::BytesLinesPackedSize, conv::Dot8LinesPack, conv::Dot8LinesWorkspace,
     rq_conv_q8_dot8_lines},
    {"conv_q8_winograd_4x4_pairs", "simd128", nullptr, conv::Winograd4x4PairsSupports,
     conv::Winograd4x4PairsPays, ConvWalk::kFourLines, conv::WinogradPairsPackedSize,
     conv::WinogradPairsPack, conv::Winograd4x4PairsWorkspace, rq_conv_q8_winograd_4x4_pairs},
    {"conv_q8_lookup", "simd128", MissingLowBits, bitserial::LookupSupports, bitserial::LookupPays,
     ConvWalk::kRows, bitserial::LookupPackedSize, bitserial::LookupPack,
     bitserial::LookupWorkspace, rq_conv_q8_lookup},
    {"conv_q8_winograd_narrow", "relaxed", MissingLowBits, conv::WinogradNarrowSupports,
     conv::WinogradNarrowPays, ConvWalk::kTwoLines, conv::WinogradNarrowPackedSize,
     conv::WinogradNarrowPack, conv::WinogradNarrowWorkspace, rq_conv_q8_winograd_narrow},
    {"conv_q8_winograd_strided_narrow", "relaxed", MissingLowBits,
     conv::WinogradStridedNarrowSupports, conv::WinogradStridedNarrowPays, ConvWalk::kTwoLines,
     conv::WinogradNarrowPackedSize, conv::WinogradStridedNarrowPack,
     conv::WinogradStridedNarrowWorkspace, rq_conv_q8_winograd_strided_narrow},
    {"conv_q8_winograd_dot8", "relaxed", MissingLowBitsDot8, conv::WinogradNarrowSupports,
     conv::WinogradDot8Pays, ConvWalk::kTwoLines, conv::WinogradNarrowPackedSize,
     conv::WinogradDot8Pack, conv::WinogradNarrowWorkspace, rq_conv_q8_winograd_narrow},
    {"conv_q8_winograd_strided_dot8", "relaxed", MissingLowBitsDot8,
     conv::WinogradStridedNarrowSupports, conv::WinogradStridedDot8Pays, ConvWalk::kTwoLines,
     conv::WinogradNarrowPackedSize, conv::WinogradStridedDot8Pack,
     conv::WinogradStridedNarrowWorkspace, rq_conv_q8_winograd_strided_narrow},
    {"conv_q8_winograd_4x3_dot8", "relaxed", MissingLowBitsDot8, conv::Winograd4x3Dot8Supports,
     conv::Winograd4x3Dot8Pays, ConvWalk::kFourLines, conv::Winograd4x3Dot8PackedSize,
     conv::Winograd4x3Dot8Pack, conv::Winograd4x3Dot8Workspace, rq_conv_q8_winograd_4x3_dot8},
    {"conv_q8_carry_save", "simd128", MissingLowBits, bitserial::PopcountSupports, Never,
     ConvWalk::kPanels, bitserial::PopcountPackedSize, bitserial::PopcountPack,
     bitserial::PopcountWorkspace, rq_conv_q8_carry_save},
    {"conv_q8_popcount", "simd128", MissingLowBits, bitserial::PopcountSupports,
     bitserial::PopcountPays, ConvWalk::kPanels, bitserial::PopcountPackedSize,
     bitserial::PopcountPack, bitserial::PopcountWorkspace, rq_conv_q8_popcount},
};

}  // namespace

std::span<const ConvF32Kernel> ConvF32Kernels() { return kF32Kernels; }
std::span<const ConvQ8Kernel> ConvQ8Kernels() { return kQ8Kernels; }

}  // namespace requant
