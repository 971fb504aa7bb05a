// The shared memory regions that Open Inference Protocol clients registered.
#pragma once

#include <map>
#include <string>

#include "core/common/mutex.h"
#include "inference/grpc_service.pb.h"
#include "server/security/authenticator.h"
#include "server/shared_memory/shared_objects.h"
#include "topk/status.h"
#include "topk/v1/tensor.pb.h"

namespace topk {

/// Maps the names of regions to parts of shared memory objects. As in Triton,
/// all clients share the names and may use every region. Only the client that
/// registered a region may unregister it. Keeps no objects open: each request
/// opens its object by name. Thread-safe.
class Regions {
 public:
  /// Maximum number of regions, in total and per client.
  static constexpr size_t kMax = 256;
  static constexpr size_t kMaxOfClient = kMax / 2;

  /// `objects` must outlive this object. Null disables shared memory.
  explicit Regions(SharedObjects* objects) : objects_(objects) {}

  /// Registers a region, which the caller then owns. Returns UNIMPLEMENTED if
  /// shared memory is disabled, PERMISSION_DENIED if the caller is not local,
  /// ALREADY_EXISTS if the name is taken, RESOURCE_EXHAUSTED if there are too
  /// many regions, and the errors of SharedObjects::Open().
  Status Register(const inference::SystemSharedMemoryRegisterRequest& request,
                  const Caller& caller);

  /// Unregisters a region, or all regions of the caller if `name` is empty.
  /// Returns PERMISSION_DENIED if another caller owns the region.
  Status Unregister(const std::string& name, const Caller& caller);

  /// Lists a region, or all regions if `name` is empty. Returns NOT_FOUND if
  /// the region does not exist.
  Status List(const std::string& name,
              inference::SystemSharedMemoryStatusResponse& to) const;

  /// Converts a range of a region to a range of its shared memory object.
  /// Returns NOT_FOUND if there is no such region, INVALID_ARGUMENT if the
  /// range exceeds the region, and UNIMPLEMENTED if shared memory is disabled.
  Result<v1::SharedMemoryRegion> Find(const std::string& name, int64_t offset,
                                      int64_t byte_size) const;

 private:
  // Returns UNIMPLEMENTED if shared memory is disabled.
  Status CheckAllowed() const;

  struct Region {
    v1::SharedMemoryRegion memory;
    std::string owner;  // Caller::key
  };

  SharedObjects* const objects_;
  mutable Mutex mutex_;
  std::map<std::string, Region> regions_ TOPK_GUARDED_BY(mutex_);
};

}  // namespace topk
