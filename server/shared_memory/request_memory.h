// The shared memory of one request: where its tensor lies, where its answer
// goes.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "core/base/status.h"
#include "server/shared_memory/shared_objects.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// Returns PERMISSION_DENIED if a caller that names shared memory in `field` is
/// not local, see Caller.
Status CheckLocal(bool is_local, const std::string& field);

/// Does nothing for a request that names no shared memory. With no objects, as
/// where none is allowed, it leaves the request as it is: the engine refuses
/// what it does not know.
class RequestMemory {
 public:
  /// `objects` outlive this, or are null.
  explicit RequestMemory(SharedObjects* objects) : objects_(objects) {}

  /// Opens the region of the request's tensor. `is_local`: see Caller.
  /// PERMISSION_DENIED if the caller is not local; other errors: see
  /// SharedObjects::Open().
  Status OpenTensor(const v1::TopKRequest& request, bool is_local);

  /// Opens the regions of the outputs and takes them out of the request. Errors
  /// as above; INVALID_ARGUMENT for an output that is not selected.
  Status OpenOutputs(v1::TopKRequest& request, bool is_local);

  /// The tensor, if it is in shared memory.
  std::optional<std::span<const std::byte>> tensor() const;

  /// Returns FAILED_PRECONDITION if a part of the tensor was never written.
  /// Takes time with its size.
  Status CheckWritten() const;

  /// OK if all of the tensor was there all the time, else FAILED_PRECONDITION.
  Status CheckTensor() const;

  /// Moves the answer's bytes to the outputs' regions. INVALID_ARGUMENT if one
  /// is too small, or they overlap; FAILED_PRECONDITION if an object was
  /// truncated.
  Status Deliver(v1::TopKResponse& answer) const;

 private:
  struct Output {
    std::string field;
    v1::SharedMemoryRegion asked;
    SharedRegion region;

    // Returns an error if `bytes` bytes do not fit.
    Status CheckRoom(size_t bytes) const;
    // The part of the region that they occupy.
    v1::SharedMemoryRegion Part(size_t bytes) const;
    // Moves a tensor's bytes there.
    Status Take(v1::Tensor& tensor) const;
  };

  Status OpenOutput(const v1::SharedMemoryRegion& asked, std::string field,
                    bool is_local, bool selected,
                    std::optional<Output>& output);

  SharedObjects* objects_;
  std::optional<SharedRegion> tensor_;
  std::optional<Output> values_;
  std::optional<Output> indices_;
};

}  // namespace topk
