// One slice's selection in progress.
//
// What: a threshold buffer. Candidates collect in a buffer somewhat larger than
// k; when it is full, the k best stay and the k-th becomes the threshold; from
// then on an element enters only if its key exceeds the threshold's.
//
// Why: most elements of a long slice cost one comparison. A slice that ascends,
// the worst case, costs one partition of the buffer per `slack` elements, which
// is O(1) an element, because slack is at least k.
//
// Ties: elements are offered in ascending index, so an element with the
// threshold's key always has a higher index than every candidate and ranks
// behind it: the strict comparison on keys alone keeps the lowest indices.
//
// Tests: unit/selection_test.cc, exhaustive/.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace topk::cpu {

/// An element that may belong to the answer.
template <class Key>
struct Candidate {
  /// The ordered key; higher ranks first.
  Key key;
  /// The element's own bits: several may share a key (-0 and +0, NaNs).
  Key bits;
  uint64_t index;
};

/// The total order: by key, descending, then by index, ascending.
template <class Key>
bool RanksBefore(const Candidate<Key>& a, const Candidate<Key>& b) {
  return a.key != b.key ? a.key > b.key : a.index < b.index;
}

/// The best k of what was offered, as a fold: start, offer, merge, finish.
/// Key is an unsigned integer of the element's width.
template <class Key>
class Selection {
 public:
  /// Starts empty. `slack` >= k trades memory for fewer partitions: the buffer
  /// holds at most min(n, k + slack) candidates, 16 to 24 bytes each.
  Selection(int64_t k, int64_t slack, int64_t n)
      : k_(static_cast<size_t>(k)),
        capacity_(static_cast<size_t>(std::min(k + slack, n))) {}

  /// Takes one element. REQUIRES: indices ascend, also over those merged.
  void Offer(Key key, Key bits, uint64_t index) {
    if (has_threshold_ && key <= threshold_) return;
    candidates_.push_back({key, bits, index});
    if (candidates_.size() >= capacity_) Partition();
  }

  /// Takes all of another selection of the same k, which may have seen any
  /// other part of the slice. The other is left empty.
  void Merge(Selection& other) {
    candidates_.insert(candidates_.end(), other.candidates_.begin(),
                       other.candidates_.end());
    other.Reset();
    if (candidates_.size() >= k_) Partition();
  }

  /// Keeps the k best and returns them in no order. REQUIRES: k were offered.
  std::vector<Candidate<Key>>& Finish() {
    Partition();
    return candidates_;
  }

  /// Starts again, keeping the memory.
  void Reset() {
    candidates_.clear();
    has_threshold_ = false;
  }

 private:
  void Partition() {
    const auto last = candidates_.begin() + static_cast<ptrdiff_t>(k_) - 1;
    std::nth_element(candidates_.begin(), last, candidates_.end(),
                     RanksBefore<Key>);
    candidates_.resize(k_);
    threshold_ = candidates_.back().key;
    has_threshold_ = true;
  }

  size_t k_;
  size_t capacity_;
  std::vector<Candidate<Key>> candidates_;
  Key threshold_ = 0;
  bool has_threshold_ = false;
};

}  // namespace topk::cpu
