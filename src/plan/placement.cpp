#include "plan/placement.h"

#include <algorithm>
#include <numeric>

#include "base/checked_math.h"
#include "base/sort.h"

namespace requant {
namespace {

struct Attempt {
  size_t bytes = 0;    // the peak
  size_t highest = 0;  // the lifetime that reaches the peak, by its position in the order
  std::vector<size_t> offsets;
};

/// Places lifetimes in this order, each in the lowest gap among those that share a moment with it.
Attempt Place(const std::vector<Lifetime>& lifetimes, size_t alignment,
              const std::vector<size_t>& order) {
  Attempt out;
  out.offsets.resize(order.size());
  std::vector<size_t> placed;  // positions in `order`, sorted by offset
  for (size_t i = 0; i < order.size(); ++i) {
    const Lifetime& one = lifetimes[order[i]];
    const size_t bytes = CheckedAlign(one.bytes, alignment);
    size_t offset = 0;
    for (const size_t j : placed) {
      const Lifetime& other = lifetimes[order[j]];
      if (other.last < one.first || one.last < other.first) continue;
      if (CheckedAdd(offset, bytes) <= out.offsets[j]) break;
      offset = std::max(offset, CheckedAlign(CheckedAdd(out.offsets[j], other.bytes), alignment));
    }
    out.offsets[i] = offset;
    if (CheckedAdd(offset, bytes) > out.bytes) {
      out.bytes = offset + bytes;
      out.highest = i;
    }
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), i,
                         [&out](size_t a, size_t b) { return out.offsets[a] < out.offsets[b]; }),
        i);
  }
  return out;
}

}  // namespace

size_t PeakBytes(const std::vector<Lifetime>& lifetimes, int moments, size_t alignment,
                 std::vector<size_t>* used) {
  // change[m] adds the bytes that begin at moment m and subtracts those that ended before it. Sums
  // of unsigned numbers wrap, so the order of additions does not matter.
  std::vector<size_t> change(static_cast<size_t>(moments) + 1);
  for (const Lifetime& one : lifetimes) {
    if (one.last < one.first) continue;  // it is never in use
    const size_t bytes = CheckedAlign(one.bytes, alignment);
    change[static_cast<size_t>(one.first)] += bytes;
    change[static_cast<size_t>(one.last) + 1] -= bytes;
  }
  size_t bound = 0, live = 0;
  for (size_t moment = 0; moment + 1 < change.size(); ++moment) {
    live += change[moment];
    if (used) used->push_back(live);
    bound = std::max(bound, live);
  }
  return bound;
}

Placement PlaceLifetimes(const std::vector<Lifetime>& lifetimes, size_t alignment,
                         size_t lower_bound, int tries) {
  // Starts greedy by size (Pisarchyk & Lee, "Efficient Memory Management for Deep Neural Net
  // Inference", 2020). Then it places whatever reaches the top earlier, a bounded number of times,
  // and keeps the best order.
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  StableSort(order,
             [&lifetimes](size_t a, size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });
  std::vector<size_t> best_order = order;
  Attempt best = Place(lifetimes, alignment, order);
  for (int round = 0; round < tries && best.bytes > lower_bound; ++round) {
    Attempt current = Place(lifetimes, alignment, order);
    const size_t highest = current.highest;
    if (current.bytes < best.bytes) {
      best = std::move(current);
      best_order = order;
    }
    if (highest == 0) break;
    const auto top = order.begin() + static_cast<ptrdiff_t>(highest);
    std::rotate(order.begin(), top, top + 1);
  }
  Placement out{best.bytes, std::vector<size_t>(lifetimes.size())};
  for (size_t i = 0; i < best_order.size(); ++i) out.offsets[best_order[i]] = best.offsets[i];
  return out;
}

}  // namespace requant
