// A device of the CUDA backend that is none: ordinary memory, and the tasks of
// the same items by std::sort. All of the backend but CUB and the CUDA runtime
// runs on it, on any machine.
#pragma once

#include <cstdint>
#include <memory>

#include "core/backends/cuda/device.h"

namespace topk::testing {

/// How such a device behaves.
struct HostDeviceOptions {
  int64_t memory_limit = int64_t{1} << 30;
  /// After so many calls of it and its lanes it is lost; < 0 = never.
  int64_t calls_until_lost = -1;
  /// After so many calls one finds no memory; < 0 = never.
  int64_t calls_until_full = -1;
};

/// Returns such a device. It aborts on what a GPU would not survive: a task
/// that reaches beyond the memories which it says that it uses, memory that
/// outlives its lane, lanes that have more than they were opened for. Where
/// the order of what is kept is left open, it is an odd one.
std::unique_ptr<cuda::Device> MakeHostDevice(
    const HostDeviceOptions& options = {});

}  // namespace topk::testing
