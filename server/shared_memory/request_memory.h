// The memory of a request that is outside its message: regions of shared memory
// or CUDA memory for its tensor and its outputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/cancellation.h"
#include "core/engine.h"
#include "server/shared_memory/shared_objects.h"
#include "topk/status.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// Returns PERMISSION_DENIED unless the caller is local (see Caller). `field`
/// is the request field that names the memory.
Status CheckLocal(bool is_local, const std::string& field);

/// Opens the regions of a request for reading the tensor and writing the
/// outputs. If a kind of memory is disabled, leaves its regions in the request,
/// and the engine rejects them.
///
/// Shared memory is opened by OpenTensor() and OpenOutputs(), and stays open.
/// CUDA memory is open only while it is accessed, because opening it may take
/// milliseconds, and because it occupies memory of the device that its owner
/// may have freed. CUDA does not report when memory that is in use is freed.
class RequestMemory {
 public:
  /// The arguments must outlive this object. Null disables shared memory, or
  /// CUDA memory.
  RequestMemory(SharedObjects* objects, const Engine* devices)
      : objects_(objects), devices_(devices) {}

  /// Opens the region of the tensor, and removes it from the request. Returns
  /// PERMISSION_DENIED if the caller is not local (see Caller), or an error
  /// from SharedObjects::Open() or Engine::CheckDevice().
  Status OpenTensor(v1::TopKRequest& request, bool is_local);

  /// Opens the regions of the outputs and removes them from the request.
  /// Returns the errors of OpenTensor(), and INVALID_ARGUMENT if there is a
  /// region for an output that the request does not select.
  Status OpenOutputs(v1::TopKRequest& request, bool is_local);

  /// Checks that the regions have room for outputs of these sizes in bytes, and
  /// that those in shared memory do not overlap. Call before Run() or
  /// Deliver().
  Status SetSizes(int64_t values, int64_t indices);

  /// Returns whether there is any region. If so, the request must not run on a
  /// poller, because other processes can delay accesses to the memory.
  bool is_used() const { return tensor_bytes() || !outputs_.empty(); }

  /// Returns the size of the tensor, or nullopt if it is in the message.
  std::optional<int64_t> tensor_bytes() const;
  /// The path of the field with the tensor's region.
  const char* tensor_field() const;
  /// The UUID of the device that has the tensor, or "".
  std::string device_uuid() const;

  /// The size of the buffers that Run() and Deliver() need to copy from and to
  /// CUDA memory, otherwise 0.
  int64_t buffer_bytes() const;

  /// Adds the cost of copying the tensor in Run() and of buffer_bytes().
  void AddCost(PreparedRequest& request) const;

  /// Computes the response to a request, from its region if it has one and
  /// otherwise from `data`. The outputs of a resident request are written to
  /// their regions on the same device if possible. Returns the errors of
  /// Engine::Run(), RunResident() and OpenMemory(), SharedRegion::Map() and
  /// Copy(), and DeviceMemory::Read(), and INVALID_ARGUMENT like Deliver().
  Result<v1::TopKResponse> Run(const Engine& engine,
                               const PreparedRequest& request, Chunks data,
                               const Cancellation* cancellation);

  /// Copies the outputs that Run() did not write to their regions, and replaces
  /// their data in the response with references to the regions. Returns
  /// INVALID_ARGUMENT if outputs on a device overlap, FAILED_PRECONDITION if a
  /// shared memory object (including the tensor's) was truncated, CANCELLED if
  /// cancelled, and the errors of Engine::OpenMemory(). After an error, the
  /// response has no data. Call once.
  Status Deliver(v1::TopKResponse& response, const Cancellation* cancellation);

 private:
  // Returns the tensor's data, which is valid while this object exists.
  // REQUIRES: tensor_bytes().
  Result<std::span<const std::byte>> ReadTensor(
      const Cancellation* cancellation);
  Result<v1::TopKResponse> RunResident(const PreparedRequest& request,
                                       const Cancellation* cancellation);

  struct Output {
    bool is_values = false;
    std::string field;
    // The region is in shared memory, or on a device.
    std::optional<SharedRegion> shared;
    DeviceRegion device;
    // The written part of the region, as in the response.
    v1::Tensor written;
    bool is_written = false;

    int64_t room() const { return shared ? shared->size() : device.bytes; }
    v1::Tensor& In(v1::TopKResponse& response) const {
      return is_values ? *response.mutable_values()
                       : *response.mutable_indices();
    }
  };

  // The open regions of `outputs_` on devices. Null for other outputs.
  using OpenRegions = std::vector<std::unique_ptr<DeviceMemory>>;
  // Opens the regions of outputs that have not been written. Fails if the
  // parts that will be written overlap.
  Result<OpenRegions> OpenOutputRegions() const;
  Status CopyOutputs(v1::TopKResponse& response,
                     const Cancellation* cancellation);

  SharedObjects* objects_;
  const Engine* devices_;
  // The tensor is in one of these, or in the message.
  std::optional<SharedRegion> tensor_;
  std::optional<DeviceRegion> device_tensor_;
  // The number of bytes that ReadTensor() copies: the size of the tensor if it
  // is in CUDA memory or its shared memory object is sparse, otherwise 0.
  int64_t copied_bytes_ = 0;
  SharedRegion::Bytes copy_;
  std::vector<Output> outputs_;
};

}  // namespace topk
