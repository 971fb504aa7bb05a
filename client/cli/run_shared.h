// topk run --shared-memory: the tensor and the answer in shared memory.
#pragma once

#include "client/npy.h"
#include "client/topk_client.h"
#include "core/base/status.h"
#include "topk/v1/topk.pb.h"

namespace topk::cli {

/// Answers a request as ComputeTopK would with the array's data in it: copies
/// that to shared memory, lets the answer come through another part of it, and
/// puts the data into the response. RESOURCE_EXHAUSTED if there is not so much.
Result<v1::TopKResponse> ComputeShared(const Client& client,
                                       v1::TopKRequest request, int64_t axis,
                                       int64_t k, const NpyArray& array);

}  // namespace topk::cli
