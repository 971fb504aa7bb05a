// Selects from consecutive short rows, for a small k.
//
// Algorithm: the row is divided into at least 2k groups, and the greatest key
// of each group is computed in registers. The k-th greatest of these maxima is
// a lower bound for the k best elements. A second pass over the row finds the
// elements that are not below the bound: k and a few more. These are sorted by
// counting or, for keys of 32 bits in vectors of 16 lanes, by a network
// (sort_few-inl.h).
//
// Why: few branches depend on the data, and only the candidates are moved. Each
// step is finished for several rows before the next step, so rows do not wait
// for each other.
//
// When: k <= kShortK, n <= kShortN, and contiguous rows. Costs: two reads of
// the row, and about 100 ns, or 60 ns with the network. If the second pass
// finds more than kMax elements, the row is left to row_feed.h.
//
// Tests: conformance/.

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace topk::cpu::HWY_NAMESPACE {

/// Selects the best k elements of each row. Owns the working memory.
template <class Key, bool kFloat>
class ShortRowSelector {
 public:
  using D = Tag<Key>;
  using V = hn::Vec<D>;

  ShortRowSelector(const SortKeyEncoder<Key, kFloat>& encoder,
                   const ShortRows<Key>& rows)
      : encoder_(encoder), vector_encoder_(encoder), rows_(rows) {}

  /// Selects from up to kRows rows. Returns a mask of the rows that are not
  /// done. Finishes each step for all rows before the next step, so that the
  /// CPU works on several rows at once.
  uint64_t Select(int64_t first, int64_t count) {
    const int64_t row_bytes = rows_.n * static_cast<int64_t>(sizeof(Key));
    const std::byte* elements = rows_.rows + first * row_bytes;
    if (rows_.n > kMax) FindBounds(elements, count);
    uint64_t left = 0;
    for (int64_t r = 0; r < count; ++r) {
      Slots& slots = slots_[r];
      slots.found = Find(elements + r * row_bytes, slots);
    }
    for (int64_t r = 0; r < count; ++r) {
      Slots& slots = slots_[r];
      for (int64_t i = 0; i < slots.found; ++i) {
        std::memcpy(&slots.bits[i],
                    elements + r * row_bytes + slots.positions[i] * sizeof(Key),
                    sizeof(Key));
      }
    }
    for (int64_t r = 0; r < count; ++r) {
      if (slots_[r].found < rows_.k) {
        left |= uint64_t{1} << r;
      } else {
        Sort(first + r, slots_[r]);
      }
    }
    return left;
  }

  static constexpr int64_t kRows = 8;

 private:
  static constexpr int64_t kLanes = hn::MaxLanes(D());
  /// The maximum number of candidates of a row. A longer row fills a vector.
  static constexpr int64_t kMax = std::max<int64_t>(32, kLanes);
  /// The maximum number of groups per row. Each row has at least 2 * k groups.
  static constexpr int64_t kGroups = std::max(2 * kShortK, kLanes);
  /// Whether to use the sorting network (sort_few-inl.h).
  static constexpr bool kNetwork = sizeof(Key) == 4 && kLanes == kShortK;

  /// The type of bounds. VectorEncoder::Number is faster to compare than Key.
  using BoundType =
      std::conditional_t<kNetwork, typename VectorEncoder<Key, kFloat>::Number,
                         Key>;

  /// The maximum number of rows in one call of RowNetwork::FindBounds().
  static constexpr int64_t kAtOnce = 4;

  /// The candidates of one row: the elements that may belong to its output.
  struct Slots {
    alignas(kVectorBytes) Key bits[kMax + kLanes] = {};
    alignas(kVectorBytes) Key keys[kMax + kLanes];
    alignas(kVectorBytes) Key ranks[kMax + kLanes];
    alignas(kVectorBytes) uint32_t positions[kMax + kScanSlack];
    int64_t found;
    BoundType bound;
  };

  // Returns a temporary network. If the network were a member, its reference to
  // the encoder would keep the compiler from holding the encoder in registers.
  RowNetwork<Key, kFloat> network() const { return {vector_encoder_, rows_}; }

  /// Returns a function that returns a mask of the candidates among kWord
  /// elements. REQUIRES: if BoundType is Key, `bound` is not 0.
  HWY_INLINE auto WordProbe(BoundType bound) const {
    if constexpr (kNetwork) {
      return [this, bound](const std::byte* at) HWY_ATTR {
        const auto below = [&](int64_t i) HWY_ATTR {
          const V x = LoadElements(D(), at + i * sizeof(Key));
          return hn::RebindMask(D(), hn::Lt(vector_encoder_.Numbers(x),
                                            hn::Set(Tag<BoundType>(), bound)));
        };
        return ~WordBits(D(), below);
      };
    } else {
      const VectorProbe<Key> probe(
          ProbeAbove(encoder_, static_cast<Key>(bound - 1)));
      return [probe](const std::byte* at) HWY_ATTR { return probe.Word(at); };
    }
  }

  /// Writes the positions of all candidates and returns their number, or
  /// returns -1 if there are more than kMax.
  int64_t Find(const std::byte* elements, Slots& slots) {
    if (rows_.n <= kMax) {
      for (int64_t i = 0; i < rows_.n; ++i) {
        slots.positions[i] = static_cast<uint32_t>(i);
      }
      return rows_.n;
    }
    if (!kNetwork && slots.bound == 0) return -1;
    const auto word = WordProbe(slots.bound);
    int64_t found = 0;
    int64_t i = 0;
    for (; i + kWord <= rows_.n; i += kWord) {
      found +=
          AppendPositions(word(elements + i * sizeof(Key)),
                          static_cast<uint32_t>(i), slots.positions + found);
      if (found > kMax) return -1;
    }
    if (i < rows_.n) {
      const PaddedWord<Key> rest(elements + i * sizeof(Key), rows_.n - i);
      found +=
          AppendPositions(word(rest.bytes) & FirstBits(rows_.n - i),
                          static_cast<uint32_t>(i), slots.positions + found);
      if (found > kMax) return -1;
    }
    return found;
  }

  /// Finds a lower bound on the k-th greatest key of each row.
  void FindBounds(const std::byte* elements, int64_t count) {
    const int64_t row_bytes = rows_.n * static_cast<int64_t>(sizeof(Key));
    if constexpr (kNetwork) {
      int64_t r = 0;
      for (; r + kAtOnce <= count; r += kAtOnce) {
        network().template FindBounds<kAtOnce>(elements + r * row_bytes,
                                               &slots_[r]);
      }
      for (; r < count; ++r) {
        network().template FindBounds<1>(elements + r * row_bytes, &slots_[r]);
      }
    } else {
      for (int64_t r = 0; r < count; ++r) {
        slots_[r].bound = Bound(elements + r * row_bytes);
      }
    }
  }

  /// Returns a lower bound on the k-th greatest key of a row. Calls itself with
  /// twice as many vectors until they have at least 2 * k lanes.
  template <int kVectors = 1>
  Key Bound(const std::byte* elements) {
    if constexpr (kVectors * kLanes < kGroups) {
      if (2 * rows_.k > kVectors * kLanes) return Bound<2 * kVectors>(elements);
    }
    const D d;
    V maxima[kVectors];
    for (int v = 0; v < kVectors; ++v) maxima[v] = hn::Zero(d);
    const auto raise = [&](V& maximum, int64_t i) HWY_ATTR {
      const V x = LoadElements(d, elements + i * sizeof(Key));
      maximum = hn::Max(maximum, vector_encoder_.Keys(x));
    };
    int64_t i = 0;
    for (; i + kVectors * kLanes <= rows_.n; i += kVectors * kLanes) {
      for (int v = 0; v < kVectors; ++v) raise(maxima[v], i + v * kLanes);
    }
    for (int v = 0; v + 1 < kVectors && i + kLanes <= rows_.n; ++v) {
      raise(maxima[v], i);
      i += kLanes;
    }
    if (i < rows_.n) {
      // Load the row's last vector, and ignore the elements before `i`.
      const int64_t last = rows_.n - kLanes;
      const V x = LoadElements(d, elements + last * sizeof(Key));
      const auto out = hn::FirstN(d, static_cast<size_t>(i - last));
      V& maximum = maxima[kVectors - 1];
      maximum =
          hn::Max(maximum, hn::IfThenZeroElse(out, vector_encoder_.Keys(x)));
    }
    alignas(kVectorBytes) Key groups[kVectors * kLanes];
    V ranks[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      hn::Store(maxima[v], d, groups + v * kLanes);
      ranks[v] = hn::Zero(d);
    }
    for (int64_t g = 0; g < kVectors * kLanes; ++g) {
      const V group = hn::Set(d, groups[g]);
      for (int v = 0; v < kVectors; ++v) {
        // A true lane is -1, so subtract the mask to count.
        ranks[v] =
            hn::Sub(ranks[v], hn::VecFromMask(d, hn::Gt(group, maxima[v])));
      }
    }
    const V k = hn::Set(d, static_cast<Key>(rows_.k));
    const V ones = hn::Set(d, static_cast<Key>(~Key{0}));
    V least = ones;
    for (int v = 0; v < kVectors; ++v) {
      least =
          hn::Min(least, hn::IfThenElse(hn::Lt(ranks[v], k), maxima[v], ones));
    }
    return LeastLane(d, least);
  }

  void Sort(int64_t row, Slots& slots) {
    if constexpr (kNetwork) {  // the candidates must fit into one vector
      if (slots.found <= kLanes && !rows_.by_index &&
          network().Sort(row, slots)) {
        return;
      }
    }
    const D d;
    for (int64_t i = 0; i < slots.found; i += kLanes) {
      hn::Store(vector_encoder_.Keys(hn::Load(d, slots.bits + i)), d,
                slots.keys + i);
    }
    Rank(slots.keys, slots.found, slots.ranks);
    Write(row, slots);
  }

  void Write(int64_t row, const Slots& slots) {
    const auto k = static_cast<Key>(rows_.k);
    Key chosen[kMax];
    int64_t count = 0;
    for (int64_t i = 0; i < slots.found; ++i) {
      if (rows_.by_index) {
        chosen[count] = static_cast<Key>(i);
        count += slots.ranks[i] < k;
      } else {
        chosen[slots.ranks[i]] = static_cast<Key>(i);
      }
    }
    const int64_t base = row * rows_.k;
    if (rows_.values != nullptr) {
      auto* values = rows_.values + base * static_cast<int64_t>(sizeof(Key));
      for (int64_t j = 0; j < rows_.k; ++j) {
        std::memcpy(values + j * sizeof(Key), &slots.bits[chosen[j]],
                    sizeof(Key));
      }
    }
    if (rows_.indices != nullptr) {
      if (rows_.index_bytes == 8) {
        WriteIndices<uint64_t>(base, slots, chosen);
      } else {
        WriteIndices<uint32_t>(base, slots, chosen);
      }
    }
  }

  template <class Index>
  void WriteIndices(int64_t base, const Slots& slots, const Key* chosen) {
    auto* indices = rows_.indices + base * static_cast<int64_t>(sizeof(Index));
    for (int64_t j = 0; j < rows_.k; ++j) {
      const auto index =
          static_cast<Index>(slots.positions[chosen[j]] + rows_.offset);
      std::memcpy(indices + j * sizeof(Index), &index, sizeof(Index));
    }
  }

  const SortKeyEncoder<Key, kFloat>& encoder_;
  const VectorEncoder<Key, kFloat> vector_encoder_;
  const ShortRows<Key>& rows_;
  Slots slots_[kRows];
};

/// Implements Kernels::select_short_rows.
template <class Key, bool kFloat>
uint64_t SelectShortRows(const SortKeyEncoder<Key, kFloat>& encoder,
                         const ShortRows<Key>& rows, int64_t begin) {
  ShortRowSelector<Key, kFloat> selector(encoder, rows);
  constexpr int64_t kRows = ShortRowSelector<Key, kFloat>::kRows;
  const int64_t end = std::min(rows.count, begin + kShortRowsAtOnce);
  uint64_t left = 0;
  for (int64_t row = begin; row < end; row += kRows) {
    left |= selector.Select(row, std::min(kRows, end - row)) << (row - begin);
  }
  return left;
}

}  // namespace topk::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
