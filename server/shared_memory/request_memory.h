// The shared memory of a request: regions for its tensor and its outputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/cancellation.h"
#include "server/shared_memory/shared_objects.h"
#include "topk/status.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// Returns PERMISSION_DENIED unless the caller is local (see Caller). `field`
/// is the request field that names the shared memory.
Status CheckLocal(bool is_local, const std::string& field);

/// Opens the shared memory regions of a request for reading the tensor and
/// writing the outputs. If shared memory is disabled, leaves the request
/// unchanged, and the engine rejects the shared memory fields.
class RequestMemory {
 public:
  /// `objects` must outlive this object. Null disables shared memory.
  explicit RequestMemory(SharedObjects* objects) : objects_(objects) {}

  /// Opens the region of the tensor. Returns PERMISSION_DENIED if the caller is
  /// not local (see Caller), or an error from SharedObjects::Open().
  Status OpenTensor(const v1::TopKRequest& request, bool is_local);

  /// Opens the regions of the outputs and removes them from the request.
  /// Returns the errors of OpenTensor(), and INVALID_ARGUMENT if there is a
  /// region for an output that the request does not select.
  Status OpenOutputs(v1::TopKRequest& request, bool is_local);

  /// Returns whether any region is open. If so, the request must not run on a
  /// poller, because other processes can delay accesses to shared memory.
  bool is_used() const { return tensor_.has_value() || !outputs_.empty(); }

  /// Returns the size of the tensor, or nullopt if it is not in shared memory.
  std::optional<int64_t> tensor_bytes() const;

  /// The number of bytes that ReadTensor() copies: the size of the tensor if
  /// its shared memory object is sparse, otherwise 0.
  int64_t copied_bytes() const { return copied_bytes_; }

  /// Returns the tensor's data, or an error from SharedRegion::Map() or Copy().
  /// The data is valid while this object exists. REQUIRES: the tensor is in
  /// shared memory.
  Result<std::span<const std::byte>> ReadTensor(
      const Cancellation* cancellation);

  /// Copies the outputs of a response to their regions, and replaces their data
  /// in the response with references to the regions. Returns INVALID_ARGUMENT
  /// if a region is too small or the outputs overlap, FAILED_PRECONDITION if a
  /// shared memory object (including the tensor's) was truncated, and CANCELLED
  /// if cancelled. After an error, the response has no data. Call once.
  Status Deliver(v1::TopKResponse& response, const Cancellation* cancellation);

 private:
  Status CopyOutputs(v1::TopKResponse& response,
                     const Cancellation* cancellation);

  struct Output {
    std::string field;
    SharedRegion region;
    v1::SharedMemoryRegion written;  // the written part of `region`
    v1::Tensor* (v1::TopKResponse::*mutable_tensor)();
  };

  SharedObjects* objects_;
  std::optional<SharedRegion> tensor_;
  int64_t copied_bytes_ = 0;
  SharedRegion::Bytes copy_;  // of a tensor in a sparse object
  std::vector<Output> outputs_;
};

}  // namespace topk
