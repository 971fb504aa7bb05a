// Which elements of a slice are selected, and how they are arranged.
#pragma once

namespace topk {

/// Which end of the order to select.
enum class Direction { kLargest, kSmallest };

/// How the selected elements are arranged: by rank, or by ascending index.
enum class Order { kValue, kIndex };

}  // namespace topk
