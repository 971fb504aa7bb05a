// One slice's selection in progress.
//
// What: a threshold buffer. Candidates collect in a buffer somewhat larger than
// k; when it is full, the k best stay and the k-th becomes the bound; from then
// on an element enters only if its key exceeds the bound.
//
// Why: most elements of a long slice cost one comparison. A slice that ascends,
// the worst case, costs one look for the k-th of the buffer per `slack`
// elements, which is O(1) an element, because slack is at least k.
//
// Ties: candidates are in ascending index, always. So an element with the
// bound's key has a higher index than every candidate and ranks behind it: the
// strict comparison on keys alone keeps the lowest indices.
//
// Tests: unit/selection_test.cc, exhaustive/.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace topk::cpu {

/// The best k of what was offered, as a fold: start, offer, merge, finish.
/// Key is an unsigned integer of the element's width; the greatest ranks first.
template <class Key>
class Selection {
 public:
  /// Kernels::kth.
  using Kth = Key (*)(const Key* keys, int64_t count, int64_t k);

  /// Starts empty. `slack` >= k trades memory for fewer reselections: the
  /// buffer holds at most min(n, k + slack) candidates, 10 to 24 bytes each.
  Selection(Kth kth, int64_t k, int64_t slack, int64_t n)
      : kth_(kth),
        k_(static_cast<size_t>(k)),
        capacity_(static_cast<size_t>(std::min(k + slack, n))) {}

  /// Takes one element. `bits` are its own: several may share a key (-0 and
  /// +0, NaNs). REQUIRES: indices ascend, also over those merged.
  void Offer(Key key, Key bits, uint64_t index) {
    if (bounded_ && key <= bound_) return;
    keys_.push_back(key);
    elements_.push_back({bits, index});
    if (keys_.size() >= capacity_) Reselect();
  }

  /// Takes all of another selection of the same k, which may have seen any
  /// other part of the slice. The other is left empty.
  void Merge(Selection& other) {
    const auto middle = static_cast<ptrdiff_t>(keys_.size());
    keys_.insert(keys_.end(), other.keys_.begin(), other.keys_.end());
    elements_.insert(elements_.end(), other.elements_.begin(),
                     other.elements_.end());
    other.Reset();
    if (middle > 0 && static_cast<size_t>(middle) < keys_.size() &&
        elements_[static_cast<size_t>(middle)].index <
            elements_[static_cast<size_t>(middle) - 1].index) {
      SortByIndex();
    }
    if (keys_.size() >= k_) Reselect();
  }

  /// Keeps the k best, in ascending index. REQUIRES: k were offered. There are
  /// k afterwards in any case: an element that changed between two reads may
  /// have pushed others out, and then be gone itself; zeros take their place.
  void Finish() {
    if (keys_.size() > k_) Reselect();
    if (keys_.size() == k_) return;
    keys_.resize(k_);
    elements_.resize(k_);
  }

  /// Starts again, keeping the memory.
  void Reset() {
    keys_.clear();
    elements_.clear();
    bounded_ = false;
  }

  /// Whether there is a bound, and which keys do not exceed it.
  bool bounded() const { return bounded_; }
  Key bound() const { return bound_; }

  /// How many candidates there are, and how many fit before a reselection.
  int64_t size() const { return static_cast<int64_t>(keys_.size()); }
  int64_t room() const {
    return static_cast<int64_t>(capacity_ - keys_.size());
  }

  /// How often the k best were chosen from more, all in all.
  int64_t reselections() const { return reselections_; }

  /// Leaves out from now on what does not exceed a bound of which it is not
  /// known whether k elements do. It holds once Exceeding(bound) is at least k,
  /// with the candidates of other pieces; else it must be given up.
  void TryBound(Key bound) {
    proven_ = {bounded_, bound_};
    if (!bounded_ || bound > bound_) bound_ = bound;
    bounded_ = true;
  }
  /// How many candidates exceed a bound.
  int64_t Exceeding(Key bound) const {
    return std::count_if(keys_.begin(), keys_.end(),
                         [bound](Key key) { return key > bound; });
  }
  /// Goes back to the bound before. What has an index of `first` or more is
  /// forgotten: offer it again, and all that the bound has left out.
  void GiveBoundUp(uint64_t first) {
    size_t kept = keys_.size();
    while (kept > 0 && elements_[kept - 1].index >= first) --kept;
    keys_.resize(kept);
    elements_.resize(kept);
    bounded_ = proven_.bounded;
    bound_ = proven_.bound;
  }
  /// A bound that `rank` candidates exceed, or fewer for ties.
  /// REQUIRES: 1 <= rank <= size(); no key is 0.
  Key BoundOf(int64_t rank) const {
    return static_cast<Key>(kth_(keys_.data(), size(), rank) - 1);
  }

  /// The candidates, in ascending index.
  Key key(size_t slot) const { return keys_[slot]; }
  Key bits(size_t slot) const { return elements_[slot].bits; }
  uint64_t index(size_t slot) const { return elements_[slot].index; }

 private:
  struct Element {
    Key bits;
    uint64_t index;
  };

  // Keeps the k best, in order, and bounds by the least of them.
  void Reselect() {
    const Key bar = kth_(keys_.data(), size(), static_cast<int64_t>(k_));
    size_t greater = 0;
    for (const Key key : keys_) greater += key > bar;
    size_t ties = k_ - greater;  // of those that equal the bar, the first
    size_t kept = 0;
    Key least = static_cast<Key>(~Key{0});
    for (size_t i = 0; i < keys_.size(); ++i) {
      const Key key = keys_[i];
      const bool tie = key == bar && ties > 0;
      const bool keep = key > bar || tie;
      keys_[kept] = key;
      elements_[kept] = elements_[i];
      ties -= tie;
      kept += keep;
      least = keep ? std::min(least, key) : least;
    }
    keys_.resize(k_);
    elements_.resize(k_);
    // Not below a bound that is tried, for what that left out is gone.
    bound_ = bounded_ ? std::max(bound_, least) : least;
    bounded_ = true;
    ++reselections_;
  }

  void SortByIndex() {
    std::vector<size_t> order(keys_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [this](size_t a, size_t b) {
      return elements_[a].index < elements_[b].index;
    });
    std::vector<Key> keys(keys_.size());
    std::vector<Element> elements(keys_.size());
    for (size_t i = 0; i < order.size(); ++i) {
      keys[i] = keys_[order[i]];
      elements[i] = elements_[order[i]];
    }
    keys_.swap(keys);
    elements_.swap(elements);
  }

  Kth kth_;
  size_t k_;
  size_t capacity_;
  std::vector<Key> keys_;
  std::vector<Element> elements_;
  Key bound_ = 0;
  bool bounded_ = false;
  int64_t reselections_ = 0;

  // The bound before the one that is tried.
  struct {
    bool bounded = false;
    Key bound = 0;
  } proven_;
};

}  // namespace topk::cpu
