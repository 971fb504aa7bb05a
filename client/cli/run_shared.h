// topk run --shared-memory: the tensor and the answer in shared memory.
#pragma once

#include "client/numpy/npy.h"
#include "client/topk_client.h"
#include "core/base/status.h"
#include "topk/v1/topk.pb.h"

namespace topk::cli {

/// Returns the response that ComputeTopK would return with the array's data in
/// the request. Copies the data to shared memory, receives the result through
/// shared memory too, and copies it into the response. RESOURCE_EXHAUSTED if
/// there is not enough shared memory.
Result<v1::TopKResponse> ComputeShared(const Client& client,
                                       v1::TopKRequest request,
                                       const NpyArray& array);

}  // namespace topk::cli
