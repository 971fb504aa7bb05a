// Selection direction and output order.
#pragma once

namespace topk {

enum class Direction { kLargest, kSmallest };

/// The order of the selected elements: by rank, or by ascending index.
enum class Order { kValue, kIndex };

}  // namespace topk
