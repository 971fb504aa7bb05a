// Answers over the shards of a longer axis, into the answer over all of it.
#pragma once

#include <cstdint>
#include <span>

#include "topk/order.h"
#include "topk/status.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// A server's response for one shard, or a merged one, with the parameters of
/// the whole axis, which no response contains.
struct PartialAnswer {
  /// Both outputs, packed. Each shard is asked for min(k, its length).
  v1::TopKResponse response;
  /// Of the whole axis.
  int64_t k = 0;
  /// A dimension, or negative to count from the back.
  int64_t axis = -1;
  Direction direction = Direction::kLargest;
  /// kIndex is OpenVINO's sort = "index"; all else comes by value.
  Order order = Order::kValue;
  /// Added to every index: where the shard begins. 0 if the request said so in
  /// its own index_offset.
  int64_t index_offset = 0;
};

/// Returns the answer over all shards, values and indices byte for byte that of
/// one request over the whole axis, or with fewer than k elements along it if
/// there are no more. The result is a partial again: its bytes do not depend on
/// the grouping or the order of the shards. No server is called.
///
/// INVALID_ARGUMENT, naming partial, field, value and rule: partials that
/// differ in their attributes or in a dimension other than the axis; more than
/// k elements along the axis; an index that does not fit its type; values not
/// in order; one index selected from two partials, whose shards overlap or lack
/// their index_offset (an overlap among elements that were not selected is not
/// detected); outputs that are missing, of different types, in shared memory or
/// (DirectML) strided.
Result<PartialAnswer> Merge(std::span<const PartialAnswer> partials);

}  // namespace topk
