// Answers over the shards of a longer axis, into the answer over all of it.
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

/// The result over one shard, or over shards that were merged, with the
/// attributes of the request for the whole axis. Both outputs, packed and
/// row-major.
struct Partial {
  DType dtype = DType::kF32;
  /// Of both outputs. Along the axis min(k, the shard's length).
  std::vector<int64_t> shape;
  /// 0 .. rank - 1.
  int64_t axis = 0;
  /// Of the whole axis, also where the shard has fewer.
  int64_t k = 0;
  Direction direction = Direction::kLargest;
  Order order = Order::kValue;
  /// I32, I64, U32 or U64.
  DType index_type = DType::kI64;
  std::span<const std::byte> values;
  std::span<const std::byte> indices;
  /// Added to every index: where the shard begins, unless the request said so.
  int64_t index_offset = 0;
};

/// The result of a merge. It can be merged again as a partial with index_offset
/// 0 and the other attributes of its inputs.
struct Merged {
  std::vector<int64_t> shape;
  std::string values;
  std::string indices;
};

/// Returns the bytes of the answer over all shards: of each slice the
/// min(k, all there are) first, in the one order (sort_key_encoder.h, then
/// ascending index). However the shards are grouped and whatever their order,
/// the bytes are the same. A slice costs O(all there are + k log partials); by
/// index, O(all there are).
///
/// INVALID_ARGUMENT, naming partial, field, value and rule: no partials; they
/// differ in their attributes or in a dimension other than the axis; more than
/// k along the axis; data of another length than shape and type imply; an index
/// that is negative or, with index_offset, does not fit its type; elements by
/// value that are not in order; one index selected from two partials, whose
/// shards overlap or lack their index_offset. An overlap among elements that
/// are not selected is not detected.
Result<Merged> MergePartials(std::span<const Partial> partials);

}  // namespace topk
