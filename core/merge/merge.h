// Merges the results over the shards of an axis into the result over the axis.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/order.h"
#include "core/base/status.h"

namespace topk {

/// The result over one shard or several merged shards, with the attributes of
/// the request for the whole axis. Both outputs are contiguous and row-major.
struct Partial {
  DType dtype = DType::kF32;
  /// The shape of both outputs: min(k, length of the shard) along the axis.
  std::vector<int64_t> shape;
  /// 0 .. rank - 1.
  int64_t axis = 0;
  /// The k of the request, even if the shard has fewer elements.
  int64_t k = 0;
  Direction direction = Direction::kLargest;
  Order order = Order::kValue;
  /// I32, I64, U32 or U64.
  DType index_type = DType::kI64;
  std::span<const std::byte> values;
  std::span<const std::byte> indices;
  /// Added to every index: the first index of the shard, or 0 if the request
  /// had an index_offset.
  int64_t index_offset = 0;
};

/// The result of a merge. Can be merged again as a partial with index_offset 0
/// and the other attributes of the inputs.
struct Merged {
  std::vector<int64_t> shape;
  std::string values;
  std::string indices;
};

/// Returns the result over all shards: the first min(k, n) elements of each
/// slice in rank order (sort_key_encoder.h, then ascending index), where n is
/// the number of elements in all partials. The bytes do not depend on the
/// grouping and the order of the shards. A slice takes O(n + k log partials),
/// or O(n) if ordered by index.
///
/// Returns INVALID_ARGUMENT, naming partial, field, value and rule, if there
/// are no partials; they differ in their attributes or in a dimension other
/// than the axis; one has more than k elements along the axis; the data has
/// another length than shape and type imply; an index is negative or, with
/// index_offset, does not fit its type; elements ordered by value are not in
/// order; or an index is selected twice, because shards overlap, lack their
/// index_offset, or repeat an index. An index that is not selected twice is not
/// checked.
Result<Merged> MergePartials(std::span<const Partial> partials);

}  // namespace topk
