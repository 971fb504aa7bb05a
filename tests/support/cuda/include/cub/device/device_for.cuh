// A part of CUB, for the simulated CUDA runtime.
#pragma once

#include "tests/support/cuda/fake_runtime.h"

namespace cub {

struct DeviceFor {
  /// Calls op(i) for each i, in descending order, because a device does not
  /// process them in order.
  template <class Count, class Op>
  static cudaError_t Bulk(Count count, Op op, cudaStream_t stream) {
    return topk::testing::FakeLaunch(stream, [=] {
      for (Count i = count; i-- > 0;) op(i);
    });
  }
};

}  // namespace cub
