// Algorithm: slices are merged one by one. The elements of a partial are added
// to the k best elements of the partials before it: merged if they are ordered
// by value, or selected if they are ordered by index.
//
// Why: every element is read anyway, to check the order of the partials. A
// tournament tree would be faster only for tens of partials.
//
// Why not cpu::Selection::Merge: it needs candidates in ascending order of
// index. Clients that merge would also have to link the CPU backend, oneTBB and
// Highway.
//
// Why one thread: selecting one of four elements takes about 25 ns. This is
// less than the transfer of the elements and their indices takes.
//
// Tests: unit/merge_test.cc.
#include "core/merge/merge.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include "core/base/elements.h"
#include "core/base/packing.h"
#include "core/base/text.h"
#include "core/base/with_sort_key_encoder.h"
#include "core/plan/layout.h"

namespace topk {
namespace {

std::string Path(size_t partial, std::string_view field) {
  return StrCat("partials[", partial, "].", field);
}

std::string_view NameOf(DType type) { return InfoOf(type).name; }

// Returns the attributes that must be equal in all partial results, by name.
std::vector<std::pair<std::string, std::string>> SharedAttributes(
    const Partial& p) {
  const bool largest = p.direction == Direction::kLargest;
  std::vector<std::pair<std::string, std::string>> shared = {
      {"dtype", StrCat(NameOf(p.dtype))},
      {"axis", StrCat(p.axis)},
      {"k", StrCat(p.k)},
      {"direction", largest ? "largest" : "smallest"},
      {"order", p.order == Order::kValue ? "by value" : "by index"},
      {"index_type", StrCat(NameOf(p.index_type))},
      {"rank", StrCat(p.shape.size())}};
  for (size_t d = 0; d < p.shape.size(); ++d) {
    if (static_cast<int64_t>(d) == p.axis) continue;
    shared.emplace_back(StrCat("shape[", d, "]"), StrCat(p.shape[d]));
  }
  return shared;
}

Status CheckAgreement(std::span<const Partial> partials) {
  const auto first = SharedAttributes(partials[0]);
  for (size_t i = 1; i < partials.size(); ++i) {
    const auto other = SharedAttributes(partials[i]);
    const auto [a, b] = std::ranges::mismatch(first, other);
    if (a == first.end()) continue;
    return InvalidArgument(
        "PARTIALS_DIFFER", Path(i, a->first),
        StrCat(a->first, " = ", b->second, " differs from ", a->second,
               " in partials[0]; all partials must have the same ", a->first));
  }
  return {};
}

Status CheckLength(std::span<const std::byte> data, int64_t count, DType type,
                   const std::string& field) {
  int64_t bytes = 0;
  if (CheckedBytes(InfoOf(type), count, &bytes) &&
      data.size() == static_cast<uint64_t>(bytes)) {
    return {};
  }
  return InvalidArgument(
      "DATA_LENGTH", field,
      StrCat("there are ", data.size(), " bytes of data; shape and type (",
             NameOf(type), ") imply ", bytes));
}

// Returns the greatest index. Indices are compared as unsigned integers, so a
// negative index is greater than every nonnegative index.
template <class Index>
uint64_t GreatestIndex(std::span<const std::byte> indices) {
  uint64_t greatest = 0;
  const auto count = static_cast<int64_t>(indices.size() / sizeof(Index));
  for (int64_t i = 0; i < count; ++i) {
    const Index index = Load<Index>(indices.data(), i);
    greatest = std::max(greatest, static_cast<uint64_t>(index));
  }
  return greatest;
}

Status CheckIndices(const Partial& partial, size_t number) {
  if (partial.indices.empty()) return {};
  const auto index =
      static_cast<int64_t>(partial.index_type == DType::kI32
                               ? GreatestIndex<int32_t>(partial.indices)
                           : partial.index_type == DType::kU32
                               ? GreatestIndex<uint32_t>(partial.indices)
                               : GreatestIndex<uint64_t>(partial.indices));
  if (index >= 0) return {};
  return InvalidArgument(
      "INDEX_RANGE", Path(number, "indices"),
      StrCat("index ", index, " (as a signed number) is outside 0 .. ",
             MaxIndex(partial.index_type)));
}

// Runs the checks that involve only one partial.
Status CheckPartial(const Partial& partial, size_t number) {
  const auto rank = static_cast<int64_t>(partial.shape.size());
  if (partial.axis < 0 || partial.axis >= rank) {
    return InvalidArgument(
        "AXIS_RANGE", Path(number, "axis"),
        StrCat("axis = ", partial.axis,
               " is not a dimension of a tensor of rank ", rank));
  }
  if (partial.k < 1) {
    return InvalidArgument("K_NOT_POSITIVE", Path(number, "k"),
                           StrCat("k = ", partial.k, " must be at least 1"));
  }
  const std::string shape = Path(number, "shape");
  const Result<int64_t> count = CountElements(partial.shape, shape);
  if (!count.ok()) return count.status();
  const int64_t own = partial.shape[static_cast<size_t>(partial.axis)];
  if (own > partial.k) {
    return InvalidArgument("MORE_THAN_K", StrCat(shape, "[", partial.axis, "]"),
                           StrCat("axis ", partial.axis, " has ", own,
                                  " elements, more than k = ", partial.k));
  }
  constexpr DType kIndexTypes[] = {DType::kI32, DType::kI64, DType::kU32,
                                   DType::kU64};
  if (std::ranges::count(kIndexTypes, partial.index_type) == 0) {
    return InvalidArgument("INDEX_TYPE", Path(number, "index_type"),
                           StrCat("index_type is ", NameOf(partial.index_type),
                                  "; it must be i32, i64, u32 or u64"));
  }
  Status status = CheckLength(partial.values, *count, partial.dtype,
                              Path(number, "values"));
  if (status.ok()) {
    status = CheckLength(partial.indices, *count, partial.index_type,
                         Path(number, "indices"));
  }
  return status.ok() ? CheckIndices(partial, number) : status;
}

// The input and the output of a merge.
struct Work {
  /// The partials, with unpacked values.
  std::vector<Partial> sources;
  Order order;
  int64_t outer = 1;
  int64_t inner = 1;
  /// The length of the merged result along the axis.
  int64_t k = 0;
  /// Whether an index has 8 bytes rather than 4.
  bool wide_indices;
  std::byte* values = nullptr;  // unpacked
  std::byte* indices = nullptr;
};

// Merges partial results slice by slice. REQUIRES: no index is negative.
template <class Key, bool kFloat>
class Merger {
 public:
  Merger(const SortKeyEncoder<Key, kFloat>& encoder, const Work& work)
      : encoder_(encoder), work_(work) {}

  Status MergeAll() {
    for (outer_ = 0; outer_ < work_.outer; ++outer_) {
      for (column_ = 0; column_ < work_.inner; ++column_) {
        if (Status s = MergeSlice(); !s.ok()) return s;
      }
    }
    return {};
  }

 private:
  struct Element {
    Key key;
    Key bits;
    uint64_t index;
  };

  static bool RanksBefore(const Element& a, const Element& b) {
    return (a.key > b.key) | ((a.key == b.key) & (a.index < b.index));
  }

  int64_t slice() const { return outer_ * work_.inner + column_; }

  Element Get(const Partial& from, int64_t at) const {
    const Key bits = Load<Key>(from.values.data(), at);
    const uint64_t index = work_.wide_indices
                               ? Load<uint64_t>(from.indices.data(), at)
                               : Load<uint32_t>(from.indices.data(), at);
    return {encoder_(bits), bits, index};
  }

  void Put(int64_t position, const Element& element) {
    const int64_t at = (outer_ * work_.k + position) * work_.inner + column_;
    Store(work_.values, at, element.bits);
    if (work_.wide_indices) {
      Store(work_.indices, at, element.index);
    } else {
      Store(work_.indices, at, static_cast<uint32_t>(element.index));
    }
  }

  Status MergeSlice() {
    best_.clear();
    for (size_t s = 0; s < work_.sources.size(); ++s) {
      if (Status status = Add(s); !status.ok()) return status;
    }
    indices_.clear();
    for (const Element& element : best_) indices_.push_back(element.index);
    std::ranges::sort(indices_);
    // Reject an index that was selected twice.
    const auto twice = std::ranges::adjacent_find(indices_);
    if (twice != indices_.end()) {
      return InvalidArgument(
          "SHARDS_OVERLAP", "partials",
          StrCat("index ", *twice, " occurs twice in slice ", slice(),
                 "; shards must not overlap, and the request for "
                 "each shard needs its own index_offset"));
    }
    if (work_.order == Order::kIndex) {
      std::ranges::sort(best_, {}, &Element::index);
    }
    for (int64_t j = 0; j < work_.k; ++j) {
      Put(j, best_[static_cast<size_t>(j)]);
    }
    return {};
  }

  // Merges the elements of a source into best_, which keeps the k best. Returns
  // an error if a source that is ordered by value is not sorted.
  Status Add(size_t source) {
    const auto before = static_cast<ptrdiff_t>(best_.size());
    const Partial& from = work_.sources[source];
    const int64_t count = from.shape[static_cast<size_t>(from.axis)];
    for (int64_t i = 0; i < count; ++i) {
      best_.push_back(Get(from, (outer_ * count + i) * work_.inner + column_));
    }
    const auto added = best_.begin() + before;
    const size_t kept = std::min(best_.size(), static_cast<size_t>(work_.k));
    if (work_.order == Order::kIndex) {
      const auto end = best_.begin() + static_cast<ptrdiff_t>(kept);
      std::nth_element(best_.begin(), end, best_.end(), RanksBefore);
      best_.erase(end, best_.end());
      return {};
    }
    const auto last =
        std::adjacent_find(added, best_.end(), std::not_fn(RanksBefore));
    if (last != best_.end()) {
      return InvalidArgument(
          "NOT_IN_ORDER", Path(source, "values"),
          StrCat("slice ", slice(), " is not sorted: element ",
                 last - added + 1, " must not follow element ", last - added));
    }
    merged_.clear();
    auto a = best_.begin();
    auto b = added;
    while (merged_.size() < kept) {
      const bool other =
          a == added || (b != best_.end() && RanksBefore(*b, *a));
      merged_.push_back(other ? *b++ : *a++);
    }
    best_.swap(merged_);
    return {};
  }

  const SortKeyEncoder<Key, kFloat> encoder_;
  const Work& work_;
  int64_t outer_ = 0;          // of the slice
  int64_t column_ = 0;         // of the slice
  std::vector<Element> best_;  // of the sources so far
  std::vector<Element> merged_;
  std::vector<uint64_t> indices_;
};

}  // namespace

Result<Merged> MergePartials(std::span<const Partial> partials) {
  if (partials.empty()) {
    return InvalidArgument("NO_PARTIALS", "partials",
                           "the list is empty; at least one is required");
  }
  if (Status s = CheckAgreement(partials); !s.ok()) return s;
  for (size_t i = 0; i < partials.size(); ++i) {
    if (Status s = CheckPartial(partials[i], i); !s.ok()) return s;
  }
  const Partial& first = partials[0];
  const auto axis = static_cast<size_t>(first.axis);
  const DTypeInfo& type = InfoOf(first.dtype);

  Work work = {.sources = {partials.begin(), partials.end()},
               .order = first.order,
               .wide_indices = InfoOf(first.index_type).bytes == 8};
  for (size_t d = 0; d < axis; ++d) work.outer *= first.shape[d];
  for (size_t d = axis + 1; d < first.shape.size(); ++d) {
    work.inner *= first.shape[d];
  }
  std::vector<std::vector<std::byte>> unpacked;
  for (Partial& source : work.sources) {
    const int64_t own = source.shape[axis];
    work.k += std::min(own, first.k - work.k);
    if (!type.packed()) continue;
    const int64_t count = work.outer * own * work.inner;
    unpacked.emplace_back(static_cast<size_t>(count));
    Unpack(type, source.values.data(), 0, count, unpacked.back().data());
    source.values = unpacked.back();
  }

  Merged merged;
  merged.shape = first.shape;
  merged.shape[axis] = work.k;
  const Result<int64_t> count = CountElements(merged.shape, "partials.shape");
  if (!count.ok()) return count.status();
  const auto elements = static_cast<size_t>(*count);
  merged.indices.resize(elements *
                        static_cast<size_t>(InfoOf(first.index_type).bytes));
  merged.values.resize(elements * static_cast<size_t>(type.bytes));
  work.indices = std::as_writable_bytes(std::span(merged.indices)).data();
  work.values = std::as_writable_bytes(std::span(merged.values)).data();
  if (elements == 0) return merged;
  Status status = WithSortKeyEncoder(first, [&](const auto& encoder) {
    return Merger(encoder, work).MergeAll();
  });
  if (!status.ok()) return status;
  if (type.packed()) {
    std::string packed(static_cast<size_t>((*count * type.bits + 7) / 8), '\0');
    Pack(type, work.values, *count,
         std::as_writable_bytes(std::span(packed)).data());
    merged.values = std::move(packed);
  }
  return merged;
}

}  // namespace topk
