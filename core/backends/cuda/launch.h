// The way to the device code, C++17 on its side. Each call puts its work on a
// stream and returns; errors of the work itself come with a later call.
#pragma once

#include "core/backends/cuda/tasks.h"

namespace topk::cuda {

/// Does a SelectTask. `stream` is a cudaStream_t, `pool` the cudaMemPool_t that
/// scratch memory is taken from. Returns a cudaError_t.
int LaunchSelect(const SelectTask& task, void* stream, void* pool);

/// Does an EmitTask. Returns a cudaError_t.
int LaunchEmit(const EmitTask& task, void* stream);

}  // namespace topk::cuda
