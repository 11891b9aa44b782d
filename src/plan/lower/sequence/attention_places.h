// Where the attention step keeps what it computes: offsets in its workspace.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/checked_math.h"
#include "ops/attention/attention.h"
#include "plan/lower/product/dynamic.h"

namespace requant {

/// Byte offsets in the workspace.
struct AttentionPlaces {
  // within each lane; `own` is what a kind of step places itself
  size_t queries = 0, scores = 0, keys = 0, values = 0, mask = 0, own = 0;
  size_t lane = 0;                            // bytes of a lane
  size_t joined_keys = 0, joined_values = 0;  // for one image, behind the lanes
};

/// The columns of a row of scores: one for every key and one for the sinks, if there are any.
inline int64_t ScoreColumns(const AttentionForm& form) {
  return form.keys + (form.sinks() ? 1 : 0);
}

/// Reserves room for so many floats and returns its offset.
inline size_t TakeFloats(size_t& end, int64_t rows, int64_t columns) {
  const size_t at = end;
  const size_t count = CheckedMul(static_cast<size_t>(rows), static_cast<size_t>(columns));
  end = CheckedAdd(end, Padded(CheckedMul(count, sizeof(float))));
  return at;
}

/// The sizes on which the layout of the workspace depends.
struct AttentionNeeds {
  int64_t panel = 0;    // queries of a panel
  int64_t queries = 0;  // floats of a panel's query that are kept
  int lanes = 1;
  size_t packed_keys = 0, packed_values = 0;  // bytes
  size_t own = 0;                             // bytes
  bool mask = false;                          // the mask is not read from its own memory
  bool joined = false;  // keys and values are read neither from inputs nor from outputs
};

/// Lays the workspace out. `end` becomes its size.
inline AttentionPlaces PlaceAttention(const AttentionForm& form, const AttentionNeeds& needs,
                                      size_t& end) {
  AttentionPlaces places;
  end = 0;
  places.queries = TakeFloats(end, needs.panel, needs.queries);
  places.scores = TakeFloats(end, needs.panel, ScoreColumns(form));
  places.keys = end;
  end = CheckedAdd(end, Padded(needs.packed_keys));
  places.values = end;
  end = CheckedAdd(end, Padded(needs.packed_values));
  places.own = end;
  end = CheckedAdd(end, needs.own);
  if (needs.mask) places.mask = TakeFloats(end, form.queries, form.keys);
  places.lane = end;
  end = CheckedMul(end, static_cast<size_t>(needs.lanes));
  if (needs.joined) {
    places.joined_keys = TakeFloats(end, form.kv_heads * form.keys, form.width);
    places.joined_values = TakeFloats(end, form.kv_heads * form.keys, form.value_width);
  }
  return places;
}

}  // namespace requant
