// Replaces the CUDA devices of this machine with a simulated one. Linked with a
// registry.cc that is compiled with TOPK_WITH_CUDA.
#include <memory>
#include <vector>

#include "core/backends/cuda/device/cuda_device.h"
#include "tests/support/host_device.h"

namespace topk::cuda {

Status CheckDevices() { return {}; }

std::vector<std::unique_ptr<Device>> OpenDevices(int64_t memory_bytes) {
  testing::HostDeviceOptions options;
  if (memory_bytes > 0) options.memory_limit = memory_bytes;
  std::vector<std::unique_ptr<Device>> devices;
  devices.push_back(testing::MakeHostDevice(options));
  return devices;
}

}  // namespace topk::cuda
