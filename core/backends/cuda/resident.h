// Selects from a tensor in memory that another process allocated on a device.
//
// The tensor is copied in chunks to memory of this process, at the speed of the
// device's memory. The kernels do not access the other process's memory: if an
// element changed between two reads, they could write beyond their buffers, and
// corrupt the results of other requests. The host does the same with outputs in
// shared memory.
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

/// Chooses how to run a plan that the kernels support on `device`. Uses chunks
/// of at least `chunk_bytes` bytes. Returns null if the device is lost or
/// has too little memory.
std::unique_ptr<const ResidentPlan> PrepareResident(const Plan& plan,
                                                    Device& device,
                                                    int64_t chunk_bytes);

}  // namespace topk::cuda
