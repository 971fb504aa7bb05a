// A selection in progress over one slice.
//
// Algorithm: candidates are collected in a buffer somewhat larger than k. When
// the buffer is full, only the k best candidates stay, and the k-th key becomes
// the bound. From then on, an element enters only if its key exceeds the bound.
//
// Why: nearly every element of a long slice costs only one comparison. In the
// worst case, an ascending slice, each time that the buffer fills up costs a
// search for its k-th key. That is O(1) per element, because the buffer has
// room for at least 2 k candidates, or for all elements.
//
// Ties: candidates are always in ascending order of index. An element whose key
// equals the bound has a higher index than every candidate and ranks behind
// them, so a strict comparison of keys keeps the lowest indices.
//
// Tests: unit/cpu_backend_test.cc, conformance/.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/backends/cpu/blocks.h"
#include "core/base/cancellation.h"

namespace topk::cpu {

/// Returns how many candidates a selection of k of n elements buffers: more
/// than k, so that the buffer rarely fills up. The buffer is smaller if `many`
/// selections share the cache. REQUIRES: k <= n.
inline int64_t SelectionCapacity(int64_t k, int64_t n, bool many) {
  return k + std::min(std::max(k, int64_t{many ? 16 : 128}), n - k);
}

/// Keeps the k best of the elements offered. Key is an unsigned integer of the
/// element's width. The greatest key ranks first.
template <class Key>
class Selection {
 public:
  /// The type of Kernels::kth.
  using Kth = Key (*)(const Key* keys, int64_t count, int64_t k,
                      const Cancellation* cancellation);

  /// The bits and the index of a candidate.
  struct Element {
    Key bits;
    uint64_t index;
  };

  /// Creates an empty selection that stores its candidates in `keys` and
  /// `elements`. After a cancellation, Finish() still leaves k candidates, but
  /// not necessarily the best. REQUIRES: both arrays have
  /// SelectionCapacity(k, n, many) elements and outlive this object.
  Selection(Kth kth, int64_t k, std::span<Key> keys,
            std::span<Element> elements,
            const Cancellation* cancellation = nullptr)
      : kth_(kth),
        k_(static_cast<size_t>(k)),
        capacity_(keys.size()),
        keys_(keys.data()),
        elements_(elements.data()),
        cancellation_(cancellation) {}

  /// The cancellation that was passed to the constructor. May be null.
  const Cancellation* cancellation() const { return cancellation_; }

  /// Adds an element to the candidates if its key exceeds the bound. The key
  /// does not determine `bits`: -0 and +0 share a key, and so do all NaNs.
  /// REQUIRES: `index` exceeds the indices of all candidates.
  void Offer(Key key, Key bits, uint64_t index) {
    if (bound_ && key <= *bound_) return;
    keys_[size_] = key;
    elements_[size_] = {bits, index};
    if (++size_ >= capacity_) Full();
  }

  /// Moves the candidates of `other` to this selection. May drop some that are
  /// not among the k best. REQUIRES: `other` has the same k, and its indices
  /// are greater than those of this selection.
  void Merge(Selection& other) {
    if (size_ + other.size_ > capacity_) {
      // Make room by dropping candidates that are not among the k best.
      if (size_ > k_) Reselect();
      if (other.size_ > k_) other.Reselect();
    }
    const auto append = [&](int64_t begin, int64_t end) {
      std::copy(other.keys_ + begin, other.keys_ + end, keys_ + size_);
      std::copy(other.elements_ + begin, other.elements_ + end,
                elements_ + size_);
      size_ += static_cast<size_t>(end - begin);
    };
    ForEachBlock(0, other.size(), kBlockElements, cancellation_, append);
    other.Reset();
  }

  /// Keeps the k best candidates, in ascending order of index. If fewer than k
  /// are left because the elements changed between two reads, adds zeros.
  /// REQUIRES: at least k elements were offered.
  void Finish() {
    if (size_ > k_) Reselect();
    std::fill(keys_ + size_, keys_ + k_, Key{0});
    std::fill(elements_ + size_, elements_ + k_, Element{0, 0});
    size_ = k_;
  }

  /// Clears the selection. Keeps the memory for reuse.
  void Reset() {
    size_ = 0;
    bound_.reset();
    reselections_ = 0;
  }

  /// The bound. Only elements with greater keys are added. Unset until there is
  /// a bound.
  std::optional<Key> bound() const { return bound_; }

  /// Sets a bound from elsewhere, unless the bound is already higher. If fewer
  /// than k elements exceed `bound` in the end, the selection is incomplete.
  void RaiseBound(Key bound) {
    bound_ = std::max(bound_, std::optional(bound));
  }

  /// Returns a bound that exactly `rank` candidates exceed, or more than `rank`
  /// if ties prevent this. REQUIRES: 1 <= rank <= size(), and no key is 0.
  Key BoundOf(int64_t rank) const {
    return static_cast<Key>(kth_(keys_, size(), rank, cancellation_) - 1);
  }

  /// The number of candidates. The buffer has space for room() more.
  int64_t size() const { return static_cast<int64_t>(size_); }
  int64_t room() const { return static_cast<int64_t>(capacity_ - size_); }

  /// The number of times since Reset() that the buffer was reduced to the k
  /// best.
  int64_t reselections() const { return reselections_; }

  /// Slots hold the candidates in ascending order of index.
  Key key(size_t slot) const { return keys_[slot]; }
  Key bits(size_t slot) const { return elements_[slot].bits; }
  uint64_t index(size_t slot) const { return elements_[slot].index; }

 private:
  // Handles a full buffer. Not inlined, to keep the loops around Offer() short.
  [[gnu::noinline]] void Full() {
    if (!IsCancelled(cancellation_)) return Reselect();
    size_ = 0;  // skip many reselections
  }

  // Keeps the k best candidates, in order. Their least key becomes the bound.
  void Reselect() {
    const Key bar =
        kth_(keys_, size(), static_cast<int64_t>(k_), cancellation_);
    size_t greater = 0;
    const auto count = [&](int64_t begin, int64_t end) {
      const Key* const keys = keys_;
      size_t more = 0;
      for (int64_t i = begin; i < end; ++i) more += keys[i] > bar;
      greater += more;
    };
    ForEachBlock(0, size(), kBlockElements, cancellation_, count);
    size_t ties = k_ - greater;  // keep only the first keys equal to bar
    size_t kept = 0;
    Key least = static_cast<Key>(~Key{0});
    const auto keep_best = [&](int64_t begin, int64_t end) {
      // Use local copies, because the stores below may alias members.
      Key* const keys = keys_;
      Element* const elements = elements_;
      size_t to = kept;
      size_t left = ties;
      Key low = least;
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end);
           ++i) {
        const Key key = keys[i];
        const bool tie = key == bar && left > 0;
        const bool keep = key > bar || tie;
        keys[to] = key;
        elements[to] = elements[i];
        left -= tie;
        to += keep;
        low = keep ? std::min(low, key) : low;
      }
      kept = to;
      ties = left;
      least = low;
    };
    ForEachBlock(0, size(), kBlockElements, cancellation_, keep_best);
    size_ = k_;
    RaiseBound(least);
    ++reselections_;
  }

  Kth kth_;
  size_t k_;
  size_t capacity_;
  Key* keys_;
  Element* elements_;
  size_t size_ = 0;
  const Cancellation* cancellation_;
  std::optional<Key> bound_;
  int64_t reselections_ = 0;
};

}  // namespace topk::cpu
