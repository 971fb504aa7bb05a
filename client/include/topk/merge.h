// Merges the responses for the shards of a long axis.
#pragma once

#include <cstdint>
#include <span>

#include "topk/order.h"
#include "topk/status.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// The response for one shard, or a merged response, together with the request
/// parameters that the response does not contain.
struct PartialResponse {
  /// Both outputs must be present and contiguous. The request must have set
  /// index_offset to the position of the shard's first element on the axis. If
  /// a shard is shorter than k, its request must use the shard's length as k.
  v1::TopKResponse response;
  /// The k of the whole axis.
  int64_t k = 0;
  /// The length of the shard along the axis. Required if it is less than k. The
  /// size of a merged response is the total size of its partials.
  int64_t size = 0;
  /// A negative axis counts from the last dimension.
  int64_t axis = -1;
  Direction direction = Direction::kLargest;
  /// kIndex for OpenVINO's sort = "index", kValue for all other requests.
  Order order = Order::kValue;
};

/// Merges the responses of all shards, without calling a server. The values and
/// indices are byte-identical to those of one request for the whole axis. If
/// the shards have fewer than k elements in total, the result contains all of
/// them. The result can be merged again. Its bytes do not depend on how the
/// shards are grouped or ordered.
///
/// Returns INVALID_ARGUMENT, naming the partial, field, value and rule, if
/// - the partials differ in their attributes or in a dimension other than the
///   axis;
/// - a partial has more than k elements along the axis;
/// - a partial has fewer than k elements along the axis, but not `size`, i.e.
///   not all elements of its shard;
/// - an index is negative;
/// - values are not in order;
/// - two partials contain the same index, because their shards overlap or an
///   index_offset was missing (an overlap is detected only among the selected
///   elements);
/// - outputs are missing, have different types, are in shared memory, or are
///   strided (DirectML).
Result<PartialResponse> Merge(std::span<const PartialResponse> partials);

}  // namespace topk
