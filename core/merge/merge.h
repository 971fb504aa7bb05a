// Merges the results for the shards of an axis into the result for the whole
// axis.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/dtype.h"
#include "topk/order.h"
#include "topk/status.h"

namespace topk {

/// The result for one shard or for several merged shards, with the attributes
/// of the original request. Both outputs are contiguous and row-major.
struct Partial {
  DType dtype = DType::kF32;
  /// The shape of both outputs: min(k, shard length) along the axis.
  std::vector<int64_t> shape;
  /// In the range 0 .. rank - 1.
  int64_t axis = 0;
  /// The k of the request, even if the shard has fewer elements.
  int64_t k = 0;
  Direction direction = Direction::kLargest;
  Order order = Order::kValue;
  /// I32, I64, U32 or U64.
  DType index_type = DType::kI64;
  std::span<const std::byte> values;
  /// Positions on the whole axis: the request for the shard had index_offset
  /// set to the position of the shard's first element.
  std::span<const std::byte> indices;
};

/// The result of a merge. To merge the result again, make a Partial with the
/// attributes of the inputs.
struct Merged {
  std::vector<int64_t> shape;
  std::string values;
  std::string indices;
};

/// Returns the result for all shards. In each slice, these are the min(k, n)
/// elements that rank first, where n is the number of elements in all partials.
/// Elements rank by key (sort_key_encoder.h), then by ascending index. The
/// grouping and order of shards do not matter. A slice takes O(k) per partial,
/// and O(k log k) to find duplicates.
///
/// Returns INVALID_ARGUMENT, naming the partial, field, value and rule, if
/// - there are no partials,
/// - partials differ in an attribute or in a dimension other than the axis,
/// - a partial has more than k elements along the axis,
/// - the length of the data does not match shape and type,
/// - an index is negative or exceeds 2^63 - 1,
/// - elements ordered by value are out of order, or
/// - an index is selected twice, because shards overlap, lacked their
///   index_offset, or repeat an index. Other duplicates are not detected.
Result<Merged> MergePartials(std::span<const Partial> partials);

}  // namespace topk
