// Selection direction and output order.
#pragma once

namespace topk {

/// The end of the order to select from.
enum class Direction { kLargest, kSmallest };

/// How the selected elements are arranged: by rank, or by ascending index.
enum class Order { kValue, kIndex };

}  // namespace topk
