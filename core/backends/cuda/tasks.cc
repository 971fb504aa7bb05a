#include "core/backends/cuda/tasks.h"

#include <algorithm>

namespace topk::cuda {
namespace {

// A part with fewer items is not worth a thread block and the merging.
constexpr int64_t kLeastPart = 8192;

}  // namespace

std::string_view NameOf(Method method) {
  return method == Method::kFilter ? "cuda_filter" : "cub_radix_sort";
}

int64_t PartsOf(int64_t slices, int64_t length, int64_t k) {
  const int64_t parts =
      std::min(kBusyBlocks / slices, length / std::max(kLeastPart, 8 * k));
  return std::max<int64_t>(parts, 1);
}

}  // namespace topk::cuda
