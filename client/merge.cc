// Algorithm: slices are merged one by one. The elements of a partial are added
// to the k best elements of the partials before it: merged if they are ordered
// by value, or selected if they are ordered by index. Every element is read
// anyway, to check the order of the partials, so a tournament tree would be
// faster only for tens of partials.
//
// Why one thread: selecting one of four elements takes about 25 ns. This is
// less than the transfer of the elements and their indices takes.
//
// Tests: unit/merge_test.cc.
#include "topk/merge.h"

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/checked.h"
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

const DTypeInfo& TypeOf(const v1::Tensor& tensor) {
  return *FindDType(tensor.data_type());
}

int64_t AxisOf(const PartialResponse& partial) {
  const int rank = partial.response.values().shape_size();
  return partial.axis < 0 ? partial.axis + rank : partial.axis;
}

Result<int64_t> ElementsOf(const v1::Tensor& tensor, const std::string& field) {
  return CountElements(std::span(tensor.shape().data(),
                                 static_cast<size_t>(tensor.shape_size())),
                       field + ".shape");
}

// Checks that an output is present and contiguous, and that its data fits its
// type and shape.
Status CheckOutput(const v1::Tensor& tensor, const std::string& field) {
  if (FindDType(tensor.data_type()) == nullptr) {
    return InvalidArgument(
        "OUTPUT_MISSING", field,
        "the output is missing; a merge needs values and indices");
  }
  if (tensor.has_shared_memory() || tensor.has_cuda_memory()) {
    return InvalidArgument(
        "OUTPUT_IN_SHARED_MEMORY", field,
        "it is in shared memory or CUDA memory; only outputs "
        "in the response are merged");
  }
  if (tensor.strides_size() > 0) {
    return InvalidArgument(
        "OUTPUT_STRIDED", field,
        "it has strides; only contiguous outputs are merged");
  }
  const Result<int64_t> count = ElementsOf(tensor, field);
  if (!count.ok()) return count.status();
  int64_t bytes = 0;
  if (CheckedBytes(TypeOf(tensor), *count, &bytes) &&
      std::cmp_equal(tensor.data().size(), bytes)) {
    return {};
  }
  return InvalidArgument("DATA_LENGTH", field + ".data",
                         StrCat("there are ", tensor.data().size(),
                                " bytes of data; shape and type (",
                                TypeOf(tensor).name, ") imply ", bytes));
}

// Runs the checks that involve only one partial, except those of its elements.
Status CheckPartial(const PartialResponse& partial, size_t number) {
  const v1::Tensor& values = partial.response.values();
  const v1::Tensor& indices = partial.response.indices();
  const std::string response = Path(number, "response.");
  Status status = CheckOutput(values, response + "values");
  if (status.ok()) status = CheckOutput(indices, response + "indices");
  if (!status.ok()) return status;
  if (!std::ranges::equal(values.shape(), indices.shape())) {
    return InvalidArgument("SHAPES_DIFFER", response + "indices.shape",
                           "values and indices must have the same shape");
  }
  const int64_t axis = AxisOf(partial);
  if (axis < 0 || axis >= values.shape_size()) {
    return InvalidArgument("AXIS_RANGE", Path(number, "axis"),
                           StrCat("axis = ", partial.axis,
                                  " is not a dimension of a tensor of rank ",
                                  values.shape_size()));
  }
  if (partial.k < 1) {
    return InvalidArgument("K_NOT_POSITIVE", Path(number, "k"),
                           StrCat("k = ", partial.k, " must be at least 1"));
  }
  const int64_t own = values.shape(static_cast<int>(axis));
  if (own > partial.k) {
    return InvalidArgument("MORE_THAN_K",
                           StrCat(response, "values.shape[", axis, "]"),
                           StrCat("axis ", axis, " has ", own,
                                  " elements, more than k = ", partial.k));
  }
  // The elements that are missing may be among the k best of the whole axis.
  if (own < partial.k && own != partial.size) {
    return InvalidArgument(
        "FEWER_THAN_K", StrCat(response, "values.shape[", axis, "]"),
        StrCat("axis ", axis, " has ", own,
               " elements, fewer than k = ", partial.k,
               ", which must be all of the shard, but size = ", partial.size));
  }
  const DTypeInfo& type = TypeOf(indices);
  if (type.is_float || type.bits < 32) {
    return InvalidArgument("INDEX_TYPE", response + "indices.data_type",
                           StrCat("the indices are ", type.name,
                                  "; they must be i32, i64, u32 or u64"));
  }
  return {};
}

// Returns the attributes that must be equal in all partials, by field.
std::vector<std::pair<std::string, std::string>> SharedAttributes(
    const PartialResponse& partial) {
  const v1::Tensor& values = partial.response.values();
  const bool largest = partial.direction == Direction::kLargest;
  std::vector<std::pair<std::string, std::string>> shared = {
      {"k", StrCat(partial.k)},
      {"axis", StrCat(AxisOf(partial))},
      {"direction", largest ? "largest" : "smallest"},
      {"order", partial.order == Order::kValue ? "by value" : "by index"},
      {"response.values.data_type", StrCat(TypeOf(values).name)},
      {"response.indices.data_type",
       StrCat(TypeOf(partial.response.indices()).name)},
      {"response.values.shape", StrCat(values.shape_size(), " dimensions")}};
  for (int d = 0; d < values.shape_size(); ++d) {
    if (d == AxisOf(partial)) continue;
    shared.emplace_back(StrCat("response.values.shape[", d, "]"),
                        StrCat(values.shape(d)));
  }
  return shared;
}

Status CheckAgreement(std::span<const PartialResponse> partials) {
  const auto first = SharedAttributes(partials[0]);
  for (size_t i = 1; i < partials.size(); ++i) {
    const auto other = SharedAttributes(partials[i]);
    const auto [a, b] = std::ranges::mismatch(first, other);
    if (a == first.end()) continue;
    return InvalidArgument("PARTIALS_DIFFER", Path(i, a->first),
                           StrCat(a->first, " = ", b->second, " differs from ",
                                  a->second, " in the first partial"));
  }
  return {};
}

// The data of a partial.
struct Source {
  std::span<const std::byte> values;  // unpacked
  std::span<const std::byte> indices;
  int64_t count;  // along the axis
};

// The input and the output of a merge. `k` is the length of the merged result
// along the axis.
struct Work : Parameters {
  std::vector<Source> sources;
  int64_t outer = 1;
  int64_t inner = 1;
  std::byte* values = nullptr;  // unpacked
  std::byte* indices = nullptr;
};

// Merges partials slice by slice.
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

  Element Get(const Source& from, int64_t at) const {
    const Key bits = Load<Key>(from.values.data(), at);
    const uint64_t index = wide_indices_
                               ? Load<uint64_t>(from.indices.data(), at)
                               : Load<uint32_t>(from.indices.data(), at);
    return {encoder_(bits), bits, index};
  }

  void Put(int64_t position, const Element& element) {
    const int64_t at = (outer_ * work_.k + position) * work_.inner + column_;
    Store(work_.values, at, element.bits);
    if (wide_indices_) {
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
  // an error if an index is out of range, or if a source that is ordered by
  // value is not sorted.
  Status Add(size_t source) {
    const Source& from = work_.sources[source];
    added_.clear();
    for (int64_t i = 0; i < from.count; ++i) {
      added_.push_back(
          Get(from, (outer_ * from.count + i) * work_.inner + column_));
      if (added_.back().index > max_index_) return BadIndex(source);
    }
    merged_.resize(best_.size() + added_.size());
    const auto kept =
        merged_.begin() +
        std::min(std::ssize(merged_), static_cast<ptrdiff_t>(work_.k));
    if (work_.order == Order::kIndex) {
      std::ranges::copy(added_, std::ranges::copy(best_, merged_.begin()).out);
      std::ranges::nth_element(merged_, kept, RanksBefore);
    } else {
      const auto last =
          std::ranges::adjacent_find(added_, std::not_fn(RanksBefore));
      if (last != added_.end()) {
        const auto at = last - added_.begin();
        return InvalidArgument(
            "NOT_IN_ORDER", Path(source, "response.values"),
            StrCat("slice ", slice(), " is not sorted: element ", at + 1,
                   " must not follow element ", at));
      }
      std::ranges::merge(best_, added_, merged_.begin(), RanksBefore);
    }
    merged_.erase(kept, merged_.end());
    best_.swap(merged_);
    return {};
  }

  Status BadIndex(size_t source) const {
    return InvalidArgument(
        "INDEX_RANGE", Path(source, "response.indices"),
        StrCat("index ",
               SignExtended(InfoOf(work_.index_type), added_.back().index),
               " (as a signed number) is outside 0 .. ", max_index_));
  }

  const SortKeyEncoder<Key, kFloat> encoder_;
  const Work& work_;
  const bool wide_indices_ = InfoOf(work_.index_type).bytes == 8;
  const uint64_t max_index_ = static_cast<uint64_t>(MaxIndex(work_.index_type));
  int64_t outer_ = 0;          // of the slice
  int64_t column_ = 0;         // of the slice
  std::vector<Element> best_;  // of the sources so far
  std::vector<Element> added_;
  std::vector<Element> merged_;
  std::vector<uint64_t> indices_;
};

// Copies the type and the shape of an output, with `k` elements along the axis,
// and allocates its data. Elements smaller than a byte get a byte each.
Result<std::byte*> Prepare(const v1::Tensor& from, int axis, int64_t k,
                           const std::string& field, v1::Tensor& to) {
  to.set_data_type(from.data_type());
  *to.mutable_shape() = from.shape();
  to.set_shape(axis, k);
  const Result<int64_t> count = ElementsOf(to, field);
  if (!count.ok()) return count.status();
  std::string& data = *to.mutable_data();
  data.resize(static_cast<size_t>(*count * TypeOf(from).bytes));
  return std::as_writable_bytes(std::span(data)).data();
}

}  // namespace

Result<PartialResponse> Merge(std::span<const PartialResponse> partials) {
  if (partials.empty()) {
    return InvalidArgument("NO_PARTIALS", "partials",
                           "the list is empty; at least one is required");
  }
  for (size_t i = 0; i < partials.size(); ++i) {
    if (Status s = CheckPartial(partials[i], i); !s.ok()) return s;
  }
  if (Status s = CheckAgreement(partials); !s.ok()) return s;
  const PartialResponse& first = partials[0];
  const v1::Tensor& values = first.response.values();
  const DTypeInfo& type = TypeOf(values);
  const auto axis = static_cast<int>(AxisOf(first));

  Work work;
  work.dtype = type.type;
  work.direction = first.direction;
  work.order = first.order;
  work.index_type = TypeOf(first.response.indices()).type;
  for (int d = 0; d < axis; ++d) work.outer *= values.shape(d);
  for (int d = axis + 1; d < values.shape_size(); ++d) {
    work.inner *= values.shape(d);
  }
  Size length;  // of all shards, along the axis
  std::vector<std::vector<std::byte>> unpacked;
  for (const PartialResponse& partial : partials) {
    const v1::TopKResponse& response = partial.response;
    Source source = {std::as_bytes(std::span(response.values().data())),
                     std::as_bytes(std::span(response.indices().data())),
                     response.values().shape(axis)};
    work.k += std::min(source.count, first.k - work.k);
    length = length + std::max(source.count, partial.size);
    if (type.packed()) {
      const int64_t count = work.outer * source.count * work.inner;
      unpacked.emplace_back(static_cast<size_t>(count));
      Unpack(type, source.values.data(), 0, count, unpacked.back().data());
      source.values = unpacked.back();
    }
    work.sources.push_back(source);
  }

  PartialResponse merged = {.response = {},
                            .k = first.k,
                            .size = length.value(),
                            .axis = axis,
                            .direction = first.direction,
                            .order = first.order};
  v1::Tensor& merged_values = *merged.response.mutable_values();
  const auto to_values =
      Prepare(values, axis, work.k, "partials.response.values", merged_values);
  if (!to_values.ok()) return to_values.status();
  const auto to_indices =
      Prepare(first.response.indices(), axis, work.k,
              "partials.response.indices", *merged.response.mutable_indices());
  work.values = *to_values;
  work.indices = *to_indices;
  if (merged_values.data().empty()) return merged;
  Status status = WithSortKeyEncoder(work, [&](const auto& encoder) {
    return Merger(encoder, work).MergeAll();
  });
  if (!status.ok()) return status;
  if (type.packed()) {
    const auto count = static_cast<int64_t>(merged_values.data().size());
    std::string packed(static_cast<size_t>((count * type.bits + 7) / 8), '\0');
    Pack(type, work.values, count,
         std::as_writable_bytes(std::span(packed)).data());
    merged_values.set_data(std::move(packed));
  }
  return merged;
}

}  // namespace topk
