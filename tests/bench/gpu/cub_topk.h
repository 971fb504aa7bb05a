// CUB's TopK, for comparison.
#pragma once

#include <cstdint>

namespace topk::bench {

/// Writes the k largest of n floats to `keys`, unordered, on the default
/// stream. Both arrays are on the device. Returns a cudaError_t.
int CubTopK(const void* elements, int64_t n, int64_t k, void* keys);

}  // namespace topk::bench
