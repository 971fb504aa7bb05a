// Selects from a tensor in memory that another process allocated on a device.
//
// The kernels read the tensor in place. If the other process changes it at the
// same time, only the result of its own request is wrong (see filter.h).
// Outputs are written to memory of this process first, and then copied, as on
// the host.
#pragma once

#include <memory>
#include <string>

#include "core/backends/backend.h"
#include "core/backends/cuda/device.h"

namespace topk::cuda {

/// Opens a region of `device`. See Backend::OpenMemory(). The device must
/// outlive the result.
Result<std::unique_ptr<DeviceMemory>> OpenRegion(Device& device,
                                                 const DeviceRegion& region,
                                                 const std::string& field);

/// Chooses how to run a plan that the kernels support on `device`. Processes
/// the tensor at once, or in chunks of about `chunk_bytes` bytes if the device
/// has too little memory for the results. Returns null if the device is lost or
/// has too little memory. REQUIRES: the tensor is aligned to its elements.
std::unique_ptr<const ResidentPlan> PrepareResident(const Plan& plan,
                                                    Device& device,
                                                    int64_t chunk_bytes);

}  // namespace topk::cuda
