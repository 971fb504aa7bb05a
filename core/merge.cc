// What: a k-way merge of each slice where the elements come by value, the k
// first of all together where they come by index.
//
// Why not cpu::Selection::Merge: that one's candidates are keys in ascending
// index, which these no longer are, and whoever merges answers would need the
// backend, with oneTBB and Highway.
//
// Tests: unit/merge_test.cc.
#include "core/merge.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "core/backends/cpu/elements.h"
#include "core/backends/cpu/key_maps.h"
#include "core/base/packing.h"
#include "core/base/text.h"
#include "core/plan/layout.h"

namespace topk {
namespace {

std::string Path(size_t partial, std::string_view field) {
  return Cat("partials[", partial, "].", field);
}

std::string_view NameOf(Direction direction) {
  return direction == Direction::kLargest ? "largest" : "smallest";
}

std::string_view NameOf(Order order) {
  return order == Order::kValue ? "by value" : "by index";
}

std::string_view NameOf(DType type) { return InfoOf(type).name; }

int64_t NameOf(int64_t number) { return number; }

// Whether all were asked the same.
class Agreement {
 public:
  explicit Agreement(std::span<const Partial> partials) : partials_(partials) {}

  template <class Field>
  void On(std::string_view name, const Field& field) {
    for (size_t i = 1; i < partials_.size() && status_.ok(); ++i) {
      const auto first = field(partials_[0]);
      const auto other = field(partials_[i]);
      if (first == other) continue;
      status_ = InvalidArgument(
          "PARTIALS_DIFFER", Path(i, name),
          Cat(name, " = ", NameOf(other), " differs from ", NameOf(first),
              " of partials[0]; only answers to one question are merged"));
    }
  }

  const Status& status() const { return status_; }

 private:
  std::span<const Partial> partials_;
  Status status_;
};

Status CheckAgreement(std::span<const Partial> partials) {
  Agreement agreement(partials);
  agreement.On("dtype", [](const Partial& p) { return p.dtype; });
  agreement.On("axis", [](const Partial& p) { return p.axis; });
  agreement.On("k", [](const Partial& p) { return p.k; });
  agreement.On("direction", [](const Partial& p) { return p.direction; });
  agreement.On("order", [](const Partial& p) { return p.order; });
  agreement.On("index_type", [](const Partial& p) { return p.index_type; });
  agreement.On("rank", [](const Partial& p) {
    return static_cast<int64_t>(p.shape.size());
  });
  if (!agreement.status().ok()) return agreement.status();
  for (size_t d = 0; d < partials[0].shape.size(); ++d) {
    if (static_cast<int64_t>(d) == partials[0].axis) continue;
    agreement.On(Cat("shape[", d, "]"),
                 [d](const Partial& p) { return p.shape[d]; });
  }
  return agreement.status();
}

Status CheckLength(std::span<const std::byte> data, int64_t count, DType type,
                   std::string field) {
  int64_t bytes = 0;
  if (CheckedBytes(InfoOf(type), count, &bytes) &&
      data.size() == static_cast<uint64_t>(bytes)) {
    return {};
  }
  return InvalidArgument(
      "DATA_LENGTH", field,
      Cat("there are ", data.size(), " bytes of data; shape and type (",
          NameOf(type), ") imply ", bytes));
}

// Returns the greatest index, of which a negative one is greater than any.
template <class Index>
uint64_t Greatest(std::span<const std::byte> indices) {
  uint64_t greatest = 0;
  const auto count = static_cast<int64_t>(indices.size() / sizeof(Index));
  for (int64_t i = 0; i < count; ++i) {
    greatest = std::max(
        greatest, static_cast<uint64_t>(cpu::Load<Index>(indices.data(), i)));
  }
  return greatest;
}

Status CheckIndices(const Partial& partial, size_t number) {
  if (partial.index_offset < 0) {
    return InvalidArgument(
        "INDEX_OFFSET_NEGATIVE", Path(number, "index_offset"),
        Cat("index_offset = ", partial.index_offset, " must not be negative"));
  }
  const uint64_t greatest =
      partial.index_type == DType::kI32   ? Greatest<int32_t>(partial.indices)
      : partial.index_type == DType::kU32 ? Greatest<uint32_t>(partial.indices)
                                          : Greatest<uint64_t>(partial.indices);
  const int64_t most = MaxIndex(partial.index_type);
  if (greatest > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return InvalidArgument(
        "INDEX_RANGE", Path(number, "indices"),
        Cat("an index is outside 0 .. ", most, ": its bits are those of ",
            static_cast<int64_t>(greatest)));
  }
  const auto index = static_cast<int64_t>(greatest);
  if (index <= most - std::min(partial.index_offset, most) &&
      partial.index_offset <= most) {
    return {};
  }
  return InvalidArgument(
      "INDEX_TYPE_TOO_SMALL", Path(number, "index_offset"),
      Cat("index ", index, " with index_offset = ", partial.index_offset,
          " exceeds ", most, ", the greatest ", NameOf(partial.index_type),
          " index"));
}

// What can be told of one partial alone.
Status CheckPartial(const Partial& partial, size_t number) {
  const auto rank = static_cast<int64_t>(partial.shape.size());
  if (partial.axis < 0 || partial.axis >= rank) {
    return InvalidArgument("AXIS_RANGE", Path(number, "axis"),
                           Cat("axis = ", partial.axis,
                               " is no dimension of a tensor of rank ", rank));
  }
  if (partial.k < 1) {
    return InvalidArgument("K_NOT_POSITIVE", Path(number, "k"),
                           Cat("k = ", partial.k, " must be at least 1"));
  }
  const std::string shape = Path(number, "shape");
  const Result<int64_t> count = CountElements(partial.shape, shape);
  if (!count.ok()) return count.status();
  const int64_t own = partial.shape[static_cast<size_t>(partial.axis)];
  if (own > partial.k) {
    return InvalidArgument("MORE_THAN_K", Cat(shape, "[", partial.axis, "]"),
                           Cat("there are ", own, " elements along axis ",
                               partial.axis, " where k = ", partial.k));
  }
  switch (partial.index_type) {
    case DType::kI32:
    case DType::kI64:
    case DType::kU32:
    case DType::kU64:
      break;
    default:
      return InvalidArgument("INDEX_TYPE", Path(number, "index_type"),
                             Cat(NameOf(partial.index_type),
                                 " is no type of indices: i32, i64, u32, u64"));
  }
  if (Status s = CheckLength(partial.values, *count, partial.dtype,
                             Path(number, "values"));
      !s.ok()) {
    return s;
  }
  if (Status s = CheckLength(partial.indices, *count, partial.index_type,
                             Path(number, "indices"));
      !s.ok()) {
    return s;
  }
  return CheckIndices(partial, number);
}

// Where all partials lie, and what they become.
struct Work {
  Order order;
  int64_t outer;
  int64_t inner;
  /// Of the merged partial, along the axis.
  int64_t k;

  struct Source {
    const std::byte* values;  // unpacked
    const std::byte* indices;
    int64_t count;  // along the axis
    uint64_t index_offset;
  };
  std::vector<Source> sources;

  std::byte* values;  // unpacked
  std::byte* indices;
};

// Merges slice by slice. Index is as wide as the indices; that they are not
// negative has been checked.
template <class Map, class Key, class Index>
class Merger {
 public:
  Merger(const Map& map, const Work& work)
      : map_(map), work_(work), ranges_(work.sources.size()) {
    elements_.reserve(work.sources.size());
  }

  Status MergeAll() {
    for (int64_t o = 0; o < work_.outer; ++o) {
      for (int64_t c = 0; c < work_.inner; ++c) {
        outer_ = o;
        column_ = c;
        Status s =
            work_.order == Order::kValue ? MergeByValue() : MergeByIndex();
        if (!s.ok()) return s;
      }
    }
    return {};
  }

 private:
  struct Element {
    Key key;
    Key bits;
    uint32_t source;
    int64_t position;  // along the axis
    uint64_t index;
  };
  // Of the indices that were chosen from a source.
  struct Range {
    uint64_t lowest;
    uint64_t highest;
  };

  static bool RanksBefore(const Element& a, const Element& b) {
    return a.key != b.key ? a.key > b.key : a.index < b.index;
  }
  static bool RanksAfter(const Element& a, const Element& b) {
    return RanksBefore(b, a);
  }

  Element Get(uint32_t source, int64_t position) const {
    const Work::Source& from = work_.sources[source];
    const int64_t at = (outer_ * from.count + position) * work_.inner + column_;
    const Key bits = cpu::Load<Key>(from.values, at);
    return {map_(bits), bits, source, position,
            cpu::Load<Index>(from.indices, at) + from.index_offset};
  }

  void Put(int64_t position, const Element& element) {
    const int64_t at = (outer_ * work_.k + position) * work_.inner + column_;
    cpu::Store(work_.values, at, element.bits);
    cpu::Store(work_.indices, at, static_cast<Index>(element.index));
  }

  Status Overlap(uint64_t index) const {
    return InvalidArgument(
        "SHARDS_OVERLAP", "partials",
        Cat("index ", index, " comes twice in slice ",
            outer_ * work_.inner + column_,
            "; shards must not overlap, and each has its index_offset"));
  }

  // Takes the first of the sources' heads, again and again.
  Status MergeByValue() {
    std::fill(ranges_.begin(), ranges_.end(),
              Range{std::numeric_limits<uint64_t>::max(), 0});
    elements_.clear();
    for (uint32_t s = 0; s < work_.sources.size(); ++s) {
      if (work_.sources[s].count > 0) elements_.push_back(Get(s, 0));
    }
    std::make_heap(elements_.begin(), elements_.end(), RanksAfter);
    Element last = {};
    for (int64_t j = 0; j < work_.k; ++j) {
      std::pop_heap(elements_.begin(), elements_.end(), RanksAfter);
      const Element first = elements_.back();
      if (j > 0 && !RanksBefore(last, first)) {
        if (!RanksBefore(first, last)) return Overlap(first.index);
        return InvalidArgument("NOT_IN_ORDER", Path(first.source, "values"),
                               Cat("element ", first.position, " of slice ",
                                   outer_ * work_.inner + column_,
                                   " ranks before the one in front of it"));
      }
      last = first;
      Put(j, first);
      Range& range = ranges_[first.source];
      range.lowest = std::min(range.lowest, first.index);
      range.highest = std::max(range.highest, first.index);
      if (first.position + 1 < work_.sources[first.source].count) {
        elements_.back() = Get(first.source, first.position + 1);
        std::push_heap(elements_.begin(), elements_.end(), RanksAfter);
      } else {
        elements_.pop_back();
      }
    }
    return CheckRanges();
  }

  // Finds an index that was chosen twice. As a rule it need not look, for the
  // sources have ranges of their own.
  Status CheckRanges() {
    std::sort(
        ranges_.begin(), ranges_.end(),
        [](const Range& a, const Range& b) { return a.lowest < b.lowest; });
    const auto meet = std::adjacent_find(
        ranges_.begin(), ranges_.end(),
        [](const Range& a, const Range& b) { return a.highest >= b.lowest; });
    if (meet == ranges_.end()) return {};
    indices_.clear();
    for (int64_t j = 0; j < work_.k; ++j) {
      indices_.push_back(cpu::Load<Index>(
          work_.indices, (outer_ * work_.k + j) * work_.inner + column_));
    }
    std::sort(indices_.begin(), indices_.end());
    const auto twice = std::adjacent_find(indices_.begin(), indices_.end());
    return twice == indices_.end() ? Status() : Overlap(*twice);
  }

  // Takes the first of all, and puts them back into the order of the indices.
  Status MergeByIndex() {
    elements_.clear();
    for (uint32_t s = 0; s < work_.sources.size(); ++s) {
      for (int64_t i = 0; i < work_.sources[s].count; ++i) {
        elements_.push_back(Get(s, i));
      }
    }
    if (elements_.size() > static_cast<size_t>(work_.k)) {
      std::nth_element(elements_.begin(), elements_.begin() + work_.k,
                       elements_.end(), RanksBefore);
      elements_.resize(static_cast<size_t>(work_.k));
    }
    std::sort(
        elements_.begin(), elements_.end(),
        [](const Element& a, const Element& b) { return a.index < b.index; });
    for (int64_t j = 0; j < work_.k; ++j) {
      const auto at = static_cast<size_t>(j);
      if (j > 0 && elements_[at].index == elements_[at - 1].index) {
        return Overlap(elements_[at].index);
      }
      Put(j, elements_[at]);
    }
    return {};
  }

  const Map map_;
  const Work& work_;
  int64_t outer_ = 0;   // of the slice
  int64_t column_ = 0;  // of the slice
  std::vector<Element> elements_;
  std::vector<Range> ranges_;
  std::vector<uint64_t> indices_;
};

Status MergeSlices(const Partial& like, const Work& work) {
  return cpu::WithKeyMap(
      InfoOf(like.dtype), like.direction == Direction::kLargest,
      [&]<class Key, bool kFloat>(KeyMap<Key, kFloat> map) {
        using Map = KeyMap<Key, kFloat>;
        return InfoOf(like.index_type).bytes == 8
                   ? Merger<Map, Key, uint64_t>(map, work).MergeAll()
                   : Merger<Map, Key, uint32_t>(map, work).MergeAll();
      });
}

}  // namespace

Result<Merged> MergePartials(std::span<const Partial> partials) {
  if (partials.empty()) {
    return InvalidArgument("NO_PARTIALS", "partials",
                           "there are none; one is the least to merge");
  }
  if (Status s = CheckAgreement(partials); !s.ok()) return s;
  for (size_t i = 0; i < partials.size(); ++i) {
    if (Status s = CheckPartial(partials[i], i); !s.ok()) return s;
  }
  const Partial& first = partials[0];
  const auto axis = static_cast<size_t>(first.axis);
  const DTypeInfo& type = InfoOf(first.dtype);

  Work work = {first.order, 1, 1, 0, {}, nullptr, nullptr};
  for (size_t d = 0; d < axis; ++d) work.outer *= first.shape[d];
  for (size_t d = axis + 1; d < first.shape.size(); ++d) {
    work.inner *= first.shape[d];
  }
  std::vector<std::vector<std::byte>> unpacked;
  for (const Partial& partial : partials) {
    const int64_t own = partial.shape[axis];
    work.k += std::min(own, first.k - work.k);
    const std::byte* values = partial.values.data();
    if (type.packed()) {
      const int64_t count = work.outer * own * work.inner;
      unpacked.emplace_back(static_cast<size_t>(count));
      Unpack(type, values, 0, count, unpacked.back().data());
      values = unpacked.back().data();
    }
    work.sources.push_back({values, partial.indices.data(), own,
                            static_cast<uint64_t>(partial.index_offset)});
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
  if (Status s = MergeSlices(first, work); !s.ok()) return s;
  if (type.packed()) {
    std::string packed(static_cast<size_t>((*count * type.bits + 7) / 8), '\0');
    Pack(type, work.values, *count,
         std::as_writable_bytes(std::span(packed)).data());
    merged.values = std::move(packed);
  }
  return merged;
}

}  // namespace topk
