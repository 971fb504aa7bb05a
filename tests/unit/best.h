// Reference selection by a stable sort of the keys.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace topk::testing {

/// Returns the slots of the k largest keys, by rank. Of equal keys, the first
/// ranks first.
template <class Key>
std::vector<size_t> BestSlots(const std::vector<Key>& keys, size_t k) {
  std::vector<size_t> slots(keys.size());
  std::iota(slots.begin(), slots.end(), size_t{0});
  std::stable_sort(slots.begin(), slots.end(),
                   [&](size_t a, size_t b) { return keys[a] > keys[b]; });
  slots.resize(k);
  return slots;
}

/// Like BestSlots(), but in ascending order of the slots.
template <class Key>
std::vector<size_t> BestSlotsInOrder(const std::vector<Key>& keys, size_t k) {
  std::vector<size_t> slots = BestSlots(keys, k);
  std::sort(slots.begin(), slots.end());
  return slots;
}

}  // namespace topk::testing
