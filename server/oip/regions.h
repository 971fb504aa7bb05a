// The shared memory that clients have registered.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "core/base/status.h"
#include "inference/grpc_service.pb.h"
#include "server/security/authenticator.h"
#include "server/shared_memory/shared_objects.h"
#include "topk/v1/tensor.pb.h"

namespace topk {

/// Names of parts of shared memory objects, the same for all clients, as in
/// Triton. Every client may use a region; only the one that registered it may
/// unregister it. A region is opened by its object's name whenever a request
/// uses it. Thread-safe.
class Regions {
 public:
  /// The maximum number of regions, in all and of one client.
  static constexpr size_t kMax = 256;
  static constexpr size_t kMaxOfClient = kMax / 2;

  /// The objects that may be named, which outlive this; null = none.
  explicit Regions(SharedObjects* objects) : objects_(objects) {}

  /// Registers a region, which the caller then owns. UNIMPLEMENTED where no
  /// shared memory is allowed; PERMISSION_DENIED if the caller is not local;
  /// ALREADY_EXISTS; RESOURCE_EXHAUSTED; see SharedObjects::Open().
  Status Register(const inference::SystemSharedMemoryRegisterRequest& request,
                  const Caller& caller);

  /// Forgets a region, or for "" all those of the caller. PERMISSION_DENIED if
  /// the region is another caller's.
  Status Unregister(const std::string& name, const Caller& caller);

  /// Lists a region, or all of them for "". NOT_FOUND if it does not exist.
  Status List(const std::string& name,
              inference::SystemSharedMemoryStatusResponse& to) const;

  /// Returns a part of a region as a part of its object. NOT_FOUND if there is
  /// no such region, INVALID_ARGUMENT if it has no such part; UNIMPLEMENTED.
  Result<v1::SharedMemoryRegion> Find(const std::string& name, int64_t offset,
                                      int64_t byte_size) const;

 private:
  // OK where shared memory is allowed.
  Status CheckAllowed() const;

  struct Region {
    v1::SharedMemoryRegion memory;
    std::string owner;  // Caller::key
  };

  SharedObjects* const objects_;
  mutable std::mutex mutex_;
  std::map<std::string, Region> regions_;
};

}  // namespace topk
