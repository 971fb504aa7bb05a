#include <cub/device/device_topk.cuh>

#include "tests/bench/gpu/cub_topk.h"

namespace topk::bench {

int CubTopK(const void* elements, int64_t n, int64_t k, void* keys) {
  namespace execution = ::cuda::execution;
  const auto environment = ::cuda::std::execution::env{
      ::cuda::stream_ref{cudaStream_t{}},
      execution::require(execution::determinism::not_guaranteed,
                         execution::output_ordering::unsorted)};
  const auto run = [&](void* scratch, size_t& bytes) {
    return cub::DeviceTopK::MaxKeys(
        scratch, bytes, static_cast<const float*>(elements),
        static_cast<float*>(keys), n, k, environment);
  };
  size_t bytes = 0;
  cudaError_t error = run(nullptr, bytes);
  void* scratch = nullptr;
  if (error == cudaSuccess) error = cudaMallocAsync(&scratch, bytes, nullptr);
  if (error == cudaSuccess) error = run(scratch, bytes);
  const cudaError_t freed = cudaFreeAsync(scratch, nullptr);
  return error == cudaSuccess ? freed : error;
}

}  // namespace topk::bench
