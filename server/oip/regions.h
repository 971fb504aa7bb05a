// The regions of shared memory and CUDA memory that Open Inference Protocol
// clients registered.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <variant>

#include "core/common/mutex.h"
#include "core/engine.h"
#include "inference/grpc_service.pb.h"
#include "server/security/authenticator.h"
#include "server/shared_memory/shared_objects.h"
#include "topk/status.h"
#include "topk/v1/tensor.pb.h"

namespace topk {

/// A region of shared memory or CUDA memory.
using MemoryRegion = std::variant<v1::SharedMemoryRegion, v1::CudaMemoryRegion>;

/// Maps the names of regions to parts of shared memory objects or CUDA memory.
/// As in Triton, all clients share the names and may use every region. Only the
/// client that registered a region may unregister it. Keeps no shared memory
/// objects open: each request opens its object by name. Keeps CUDA memory open,
/// so that requests open it quickly. Thread-safe.
class Regions {
 public:
  /// Maximum number of regions, in total and per client.
  static constexpr size_t kMax = 256;
  static constexpr size_t kMaxOfClient = kMax / 2;

  /// The arguments must outlive this object. Null disables shared memory, or
  /// CUDA memory.
  Regions(SharedObjects* objects, const Engine* devices)
      : objects_(objects), devices_(devices) {}

  /// Registers a region, which the caller then owns. Returns UNIMPLEMENTED if
  /// shared memory is disabled, PERMISSION_DENIED if the caller is not local,
  /// ALREADY_EXISTS if the name is taken, RESOURCE_EXHAUSTED if there are too
  /// many regions, and the errors of SharedObjects::Open().
  Status Register(const inference::SystemSharedMemoryRegisterRequest& request,
                  const Caller& caller);

  /// Like above, for CUDA memory. May take milliseconds. Returns
  /// INVALID_ARGUMENT if there is no such device, and the errors of
  /// Engine::OpenMemory() instead of those of SharedObjects::Open().
  Status Register(const inference::CudaSharedMemoryRegisterRequest& request,
                  const Caller& caller);

  /// Unregisters a region of shared memory, or of CUDA memory if `is_cuda` is
  /// true, or all such regions of the caller if `name` is empty. Returns
  /// PERMISSION_DENIED if another caller owns the region. Requests that use the
  /// memory continue.
  Status Unregister(const std::string& name, const Caller& caller,
                    bool is_cuda);

  /// Lists a region, or all regions of a kind of memory if `name` is empty.
  /// Returns NOT_FOUND if the region does not exist.
  Status List(const std::string& name,
              inference::SystemSharedMemoryStatusResponse& to) const;
  Status List(const std::string& name,
              inference::CudaSharedMemoryStatusResponse& to) const;

  /// Converts a range of a region to a range of its memory. Returns NOT_FOUND
  /// if there is no such region, INVALID_ARGUMENT if the range exceeds the
  /// region, and UNIMPLEMENTED if all regions are disabled.
  Result<MemoryRegion> Find(const std::string& name, int64_t offset,
                            int64_t byte_size) const;

 private:
  struct Region {
    MemoryRegion memory;
    std::string owner;  // Caller::key
    // Keeps CUDA memory open.
    std::shared_ptr<DeviceMemory> open;
    int device_number = 0;
  };

  Status Insert(const std::string& name, Region region);
  template <class Memory, class Response, class Fill>
  Status ListKind(const std::string& name, Response& to, Fill fill) const;

  SharedObjects* const objects_;
  const Engine* const devices_;
  mutable Mutex mutex_;
  std::map<std::string, Region> regions_ TOPK_GUARDED_BY(mutex_);
};

}  // namespace topk
