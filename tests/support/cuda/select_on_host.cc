// Compiles select.cu for the simulated CUDA runtime.
#define __device__

#include "tests/support/cuda/fake_runtime.h"
#include "tests/support/cuda/host_block.h"

namespace topk::cuda {
namespace {

template <class Kernel>
cudaError_t Launch(const Kernel& kernel, size_t shared_bytes,
                   cudaStream_t stream) {
  return testing::FakeLaunch(stream,
                             [=] { testing::RunOnHost(kernel, shared_bytes); });
}

}  // namespace
}  // namespace topk::cuda

#include "core/backends/cuda/select.cu"
