// Sorts a few keys, by counting or with a sorting network in vector lanes.
//
// Counting: the position of a key is the number of keys that rank before it,
// which are the greater keys and the equal keys in front of it. Comparing each
// key with all others is quadratic, but needs no branches, moves or waits, and
// handles a vector at a time. 50 keys take 0.1 us, a tenth of the time of the
// radix sort (rank_sort.h). When: short rows, and outputs of k <=
// kMaxRankCount.
//
// Network: a bitonic network sorts the maxima of a short row's groups, and
// later the candidates with their positions. Each step compares pairs of lanes
// whose numbers differ in certain bits, and moves the greater element to the
// lower lane. A step takes three instructions, without branches or memory
// accesses. The network takes 0.6 of the time of counting. A row with a key
// that several bit patterns share (zeros, NaNs) is sorted by counting. When:
// short rows (short_rows-inl.h) of 32-bit keys, with vectors of 16 lanes.
//
// Tests: conformance/.

#include <limits>

HWY_BEFORE_NAMESPACE();
namespace topk::cpu::HWY_NAMESPACE {

/// Implements Kernels::rank.
template <class Key>
void Rank(const Key* keys, int64_t count, Key* ranks) {
  const Tag<Key> d;
  constexpr int64_t kLanes = hn::MaxLanes(Tag<Key>());
  for (int64_t v = 0; v < count; v += kLanes) {
    const auto key = hn::Load(d, keys + v);
    const auto place = hn::Iota(d, static_cast<Key>(v));
    auto rank = hn::Zero(d);
    for (int64_t i = 0; i < count; ++i) {
      const auto other = hn::Set(d, keys[i]);
      const auto before =
          hn::Or(hn::Gt(other, key),
                 hn::And(hn::Eq(other, key),
                         hn::Gt(place, hn::Set(d, static_cast<Key>(i)))));
      rank = hn::Sub(rank, hn::VecFromMask(d, before));  // a true lane is -1
    }
    hn::Store(rank, d, ranks + v);
  }
}

/// Compares the lanes i and i ^ kBits of each vector, and swaps their values if
/// they are out of order.
template <int kBits, class D, class V, size_t kVectors>
HWY_INLINE void ExchangeLanes(D d, V (&v)[kVectors]) {
  const hn::RebindToUnsigned<D> lanes;
  using Lane = hn::TFromD<decltype(lanes)>;
  const auto lane = hn::Iota(lanes, 0);
  const auto partner = hn::Xor(lane, hn::Set(lanes, Lane{kBits}));
  const auto lower = hn::RebindMask(d, hn::Lt(lane, partner));
  for (V& x : v) {
    const V other = hn::TableLookupLanes(x, hn::IndicesFromVec(d, partner));
    x = hn::IfThenElse(lower, hn::Max(x, other), hn::Min(x, other));
  }
}

/// Sorts blocks of kBlock lanes. REQUIRES: each block is bitonic: it descends
/// and then ascends, or the reverse.
template <int kBlock, class D, class V, size_t kVectors>
HWY_INLINE void MergeLanes(D d, V (&v)[kVectors]) {
  if constexpr (kBlock > 1) {
    ExchangeLanes<kBlock / 2>(d, v);
    MergeLanes<kBlock / 2>(d, v);
  }
}

/// Sorts blocks of kBlock lanes.
template <int kBlock, class D, class V, size_t kVectors>
HWY_INLINE void SortLanes(D d, V (&v)[kVectors]) {
  if constexpr (kBlock > 1) {
    SortLanes<kBlock / 2>(d, v);
    ExchangeLanes<kBlock - 1>(d, v);
    MergeLanes<kBlock / 2>(d, v);
  }
}

/// The steps of ShortRowSelector that use the sorting network.
template <class Key, bool kFloat>
class RowNetwork {
 public:
  using D = Tag<Key>;
  using V = hn::Vec<D>;
  using Number = typename VectorEncoder<Key, kFloat>::Number;
  using Numbers = Tag<Number>;
  static constexpr int64_t kLanes = hn::MaxLanes(D());

  /// The arguments must outlive this object.
  RowNetwork(const VectorEncoder<Key, kFloat>& encoder,
             const ShortRows<Key>& rows)
      : encoder_(encoder), rows_(rows) {}

  /// Finds a lower bound on the k-th greatest element of each of kCount rows.
  /// Divides each row into kLanes groups, or 2 * kLanes if k > kLanes / 2. The
  /// bound is the k-th greatest of the row's group maxima. Ignores NaNs.
  template <int64_t kCount, class Slots>
  void FindBounds(const std::byte* elements, Slots* slots) const {
    const D d;
    const Numbers numbers;
    const auto least = hn::Set(
        numbers, kFloat ? -std::numeric_limits<Number>::infinity() : Number{0});
    hn::Vec<Numbers> maxima[kCount * 2];
    hn::Vec<Numbers> best[kCount];
    for (int64_t r = 0; r < kCount; ++r) {
      auto even = least;
      auto odd = least;
      int64_t i = 0;
      // Pass the elements first, to ignore NaNs: on x86, Max() returns its
      // second argument if the first is NaN.
      for (; i + 2 * kLanes <= rows_.n; i += 2 * kLanes) {
        const V x = LoadElements(d, elements + i * sizeof(Key));
        const V y = LoadElements(d, elements + (i + kLanes) * sizeof(Key));
        even = hn::Max(encoder_.Numbers(x), even);
        odd = hn::Max(encoder_.Numbers(y), odd);
      }
      if (i + kLanes <= rows_.n) {
        const V x = LoadElements(d, elements + i * sizeof(Key));
        even = hn::Max(encoder_.Numbers(x), even);
        i += kLanes;
      }
      if (i < rows_.n) {
        // Load the row's last vector, and ignore the elements before `i`.
        const int64_t last = rows_.n - kLanes;
        const V x = LoadElements(d, elements + last * sizeof(Key));
        const auto out = hn::FirstN(numbers, static_cast<size_t>(i - last));
        odd = hn::Max(hn::IfThenElse(out, least, encoder_.Numbers(x)), odd);
      }
      maxima[2 * r] = even;
      maxima[2 * r + 1] = odd;
      best[r] = hn::Max(even, odd);
      elements += rows_.n * static_cast<int64_t>(sizeof(Key));
    }
    if (2 * rows_.k <= kLanes) {
      SortLanes<kLanes>(numbers, best);
    } else {
      SortLanes<kLanes>(numbers, maxima);
      for (int64_t r = 0; r < kCount; ++r) {
        best[r] =
            hn::Max(maxima[2 * r], hn::Reverse(numbers, maxima[2 * r + 1]));
      }
      MergeLanes<kLanes>(numbers, best);
    }
    for (int64_t r = 0; r < kCount; ++r) {
      slots[r].bound =
          hn::ExtractLane(best[r], static_cast<size_t>(rows_.k - 1));
    }
  }

  /// Sorts up to kLanes candidates of a row and writes the best. Returns false
  /// and writes nothing if a key belongs to several bit patterns (zeros, NaNs).
  template <class Slots>
  HWY_INLINE bool Sort(int64_t row, const Slots& slots) const {
    const D d;
    const Tag<uint64_t> pairs;
    constexpr int kPairs = kLanes / 2;
    const auto in = hn::FirstN(d, static_cast<size_t>(slots.found));
    const V key = encoder_.Keys(hn::Load(d, slots.bits));
    if (!hn::AllFalse(d, hn::And(in, encoder_.Shared(key)))) return false;
    const auto keys = hn::BitCast(pairs, hn::IfThenElseZero(in, key));
    const auto places = hn::BitCast(
        pairs, hn::IfThenElseZero(in, hn::Not(hn::Load(d, slots.positions))));
    // Pair keys with positions: even lanes in halves[0], odd in halves[1].
    const auto lower = hn::Set(pairs, 0xFFFFFFFF);
    hn::Vec<decltype(pairs)> halves[] = {
        hn::Or(hn::ShiftLeft<32>(keys), hn::And(places, lower)),
        hn::Or(hn::ShiftRight<32>(places), hn::AndNot(lower, keys))};
    SortLanes<kPairs>(pairs, halves);
    const auto other = hn::Reverse(pairs, halves[1]);
    hn::Vec<decltype(pairs)> best[] = {hn::Max(halves[0], other)};
    MergeLanes<kPairs>(pairs, best);
    WritePairs(row, 0, best[0]);
    if (rows_.k > kPairs) {
      best[0] = hn::Min(halves[0], other);
      MergeLanes<kPairs>(pairs, best);
      WritePairs(row, kPairs, best[0]);
    }
    return true;
  }

 private:
  /// Outputs the pairs in `best`, starting at rank `first`. Each pair has a key
  /// in its upper half and a complemented position in its lower half.
  template <class Pairs>
  HWY_INLINE void WritePairs(int64_t row, int64_t first, Pairs best) const {
    const Tag<uint64_t> pairs;
    const hn::Rebind<uint32_t, decltype(pairs)> halves;
    const int64_t at = row * rows_.k + first;
    const auto rest = static_cast<size_t>(rows_.k - first);
    if (rows_.values != nullptr) {
      const auto keys = hn::TruncateTo(halves, hn::ShiftRight<32>(best));
      hn::BlendedStore(encoder_.Bits(halves, keys), hn::FirstN(halves, rest),
                       halves, reinterpret_cast<uint32_t*>(rows_.values) + at);
    }
    if (rows_.indices == nullptr) return;
    const auto indices = hn::Add(hn::AndNot(best, hn::Set(pairs, 0xFFFFFFFF)),
                                 hn::Set(pairs, rows_.offset));
    if (rows_.index_bytes == 8) {
      hn::BlendedStore(indices, hn::FirstN(pairs, rest), pairs,
                       reinterpret_cast<uint64_t*>(rows_.indices) + at);
    } else {
      hn::BlendedStore(hn::TruncateTo(halves, indices),
                       hn::FirstN(halves, rest), halves,
                       reinterpret_cast<uint32_t*>(rows_.indices) + at);
    }
  }

  const VectorEncoder<Key, kFloat>& encoder_;
  const ShortRows<Key>& rows_;
};

}  // namespace topk::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
