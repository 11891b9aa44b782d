// Tables of rows (embeddings) in few bits, of which only the gathered rows become floats.
#pragma once

#include <cstdint>
#include <functional>

#include "ir/graph.h"
#include "quant/graph/body_scope.h"

namespace requant {

/// How the rows of tables are stored.
struct TableOptions {
  int bits = 8;        // 8, 4, or 0: tables stay in float
  int64_t block = 32;  // for 4 bits: numbers of a row that share a scale, a power of two from 16 on
};

/// Smaller tables do not justify three more operators.
inline constexpr int64_t kLeastTable = 4096;

/// Whether the node is a Gather that takes rows (axis 0) from a constant float table [rows, length]
/// of at least kLeastTable numbers, all of them finite, by indices that are no constants.
bool IsTable(const BodyScope& scope, const Node& node);

/// Quantizes the tables of the graph of `scope`.
/// - 8 bits: int8 codes [rows, length] and a scale per row [rows, 1], the row's largest magnitude
///   divided by 127. The Gather becomes Gather(codes), Cast, Gather(scales) and Mul.
/// - 4 bits: com.microsoft::GatherBlockQuantized with int4 codes and a scale per block.
/// The last node takes the Gather's name. `keep`, if given, names operators that stay as they are;
/// bodies of If, Loop and Scan do not change. Types are known. Returns the number of Gathers.
int64_t QuantizeTables(BodyScope& scope, const TableOptions& options,
                       const std::function<bool(const Node&)>& keep = nullptr);

}  // namespace requant
