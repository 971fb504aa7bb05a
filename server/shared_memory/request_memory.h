// The shared memory of one request: regions for its tensor and its outputs.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "server/shared_memory/shared_objects.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// Returns PERMISSION_DENIED unless the caller is local, see Caller. `field`
/// names the shared memory.
Status CheckLocal(bool is_local, const std::string& field);

/// Opens the shared memory that a request names, if any, and writes the outputs
/// to it. If no shared memory is allowed, leaves the request as it is, and the
/// engine rejects the fields.
class RequestMemory {
 public:
  /// `objects` must outlive this, or is null if no shared memory is allowed.
  explicit RequestMemory(SharedObjects* objects) : objects_(objects) {}

  /// Opens the region of the request's tensor. PERMISSION_DENIED unless the
  /// caller is local, see Caller; other errors: see SharedObjects::Open().
  Status OpenTensor(const v1::TopKRequest& request, bool is_local);

  /// Opens the regions of the outputs and removes them from the request. Errors
  /// as OpenTensor(); INVALID_ARGUMENT for an output that is not selected.
  Status OpenOutputs(v1::TopKRequest& request, bool is_local);

  /// Returns the tensor, or nothing if it is not in shared memory.
  std::optional<std::span<const std::byte>> tensor() const;

  /// Returns FAILED_PRECONDITION if a part of the tensor was never written.
  /// Takes time proportional to its size.
  Status CheckWritten() const;

  /// Returns FAILED_PRECONDITION if the tensor's object was truncated since
  /// OpenTensor().
  Status CheckTensor() const;

  /// Moves the outputs of a response to their regions. INVALID_ARGUMENT if a
  /// region is too small, or the outputs overlap; FAILED_PRECONDITION if an
  /// object was truncated. Call it once.
  Status Deliver(v1::TopKResponse& response);

 private:
  struct Output {
    std::string field;
    SharedRegion region;
    v1::SharedMemoryRegion written;  // the part of `region` that is written
    v1::Tensor* (v1::TopKResponse::*mutable_tensor)();
  };

  SharedObjects* objects_;
  std::optional<SharedRegion> tensor_;
  std::vector<Output> outputs_;
};

}  // namespace topk
