// CUB's own selection, as a peer.
#pragma once

#include <cstdint>

namespace topk::bench {

/// Puts the k greatest of n floats, in no order, into `keys`, on the default
/// stream; all on the device. Returns a cudaError_t.
int CubTopK(const void* elements, int64_t n, int64_t k, void* keys);

}  // namespace topk::bench
