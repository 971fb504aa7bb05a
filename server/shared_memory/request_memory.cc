#include "server/shared_memory/request_memory.h"

#include <algorithm>
#include <utility>

#include "core/base/text.h"
#include "core/engine.h"

namespace topk {
namespace {

constexpr char kTensor[] = "tensor.shared_memory";

// Returns whether two valid regions overlap.
bool Overlap(const v1::SharedMemoryRegion& a, const v1::SharedMemoryRegion& b) {
  return a.offset() < b.offset() + b.byte_size() &&
         b.offset() < a.offset() + a.byte_size();
}

// Copies an output to `region` in small steps. Checks for cancellation between
// steps, because writing a page may take a second if other processes punch
// holes into the object. Checks for truncation too: writes to a truncated
// object go to private memory, which does not count as in flight.
Status CopyTo(const SharedRegion& region, const std::string& field,
              std::span<const std::byte> from,
              const Cancellation* cancellation) {
  const auto to = region.Map(field);
  if (!to.ok()) return to.status();
  constexpr size_t kStepBytes = size_t{1} << 20;
  for (size_t done = 0; done < from.size(); done += kStepBytes) {
    if (IsCancelled(cancellation)) return Cancelled();
    std::ranges::copy(
        from.subspan(done, std::min(kStepBytes, from.size() - done)),
        to->begin() + static_cast<std::ptrdiff_t>(done));
    if (Status s = region.CheckIntact(field); !s.ok()) return s;
  }
  return {};
}

}  // namespace

Status CheckLocal(bool is_local, const std::string& field) {
  if (is_local) return {};
  return {Code::kPermissionDenied, "SHARED_MEMORY_REMOTE", field,
          "only clients on the server's machine may use shared memory: connect "
          "to a unix: socket or a loopback address"};
}

Status RequestMemory::OpenTensor(const v1::TopKRequest& request,
                                 bool is_local) {
  if (objects_ == nullptr || !request.tensor().has_shared_memory()) return {};
  if (Status s = CheckLocal(is_local, kTensor); !s.ok()) return s;
  Result<SharedRegion> region =
      objects_->Open(request.tensor().shared_memory(), Access::kRead, kTensor);
  if (!region.ok()) return region.status();
  tensor_ = *std::move(region);
  if (tensor_->IsSparse()) copied_bytes_ = *tensor_bytes();
  return {};
}

Status RequestMemory::OpenOutputs(v1::TopKRequest& request, bool is_local) {
  if (objects_ == nullptr || !request.has_output()) return {};
  v1::OutputOptions& options = *request.mutable_output();
  const auto open = [&](const v1::SharedMemoryRegion& named, std::string field,
                        v1::OutputSelection without,
                        auto mutable_tensor) -> Status {
    if (Status s = CheckLocal(is_local, field); !s.ok()) return s;
    if (options.selection() == without) {
      return InvalidArgument(
          "OUTPUT_NOT_SELECTED", field,
          StrCat(field, " is set, but output.selection omits this output"));
    }
    Result<SharedRegion> region = objects_->Open(named, Access::kWrite, field);
    if (!region.ok()) return region.status();
    outputs_.push_back(
        {std::move(field), *std::move(region), named, mutable_tensor});
    return {};
  };
  Status status;
  if (options.has_values()) {
    status = open(options.values(), "output.values",
                  v1::OUTPUT_SELECTION_INDICES_ONLY,
                  &v1::TopKResponse::mutable_values);
  }
  if (status.ok() && options.has_indices()) {
    status = open(options.indices(), "output.indices",
                  v1::OUTPUT_SELECTION_VALUES_ONLY,
                  &v1::TopKResponse::mutable_indices);
  }
  if (!status.ok()) return status;
  options.clear_values();
  options.clear_indices();
  return {};
}

std::optional<int64_t> RequestMemory::tensor_bytes() const {
  if (!tensor_.has_value()) return std::nullopt;
  return tensor_->size();
}

Result<std::span<const std::byte>> RequestMemory::ReadTensor(
    const Cancellation* cancellation) {
  if (copied_bytes_ == 0) {
    const auto mapped = tensor_->Map(kTensor);
    if (!mapped.ok()) return mapped.status();
    return std::span<const std::byte>(*mapped);
  }
  Result<SharedRegion::Bytes> copy = tensor_->Copy(kTensor, cancellation);
  if (!copy.ok()) return copy.status();
  copy_ = *std::move(copy);
  return std::span<const std::byte>(copy_);
}

Status RequestMemory::Deliver(v1::TopKResponse& response,
                              const Cancellation* cancellation) {
  Status status =
      tensor_.has_value() ? tensor_->CheckIntact(kTensor) : Status();
  if (status.ok()) status = CopyOutputs(response, cancellation);
  if (!status.ok()) DiscardOutputs(response);
  return status;
}

Status RequestMemory::CopyOutputs(v1::TopKResponse& response,
                                  const Cancellation* cancellation) {
  for (Output& output : outputs_) {
    const size_t bytes = (response.*output.mutable_tensor)()->data().size();
    const int64_t room = output.region.size();
    if (std::cmp_greater(bytes, room)) {
      return InvalidArgument(
          "SHARED_MEMORY_TOO_SMALL", StrCat(output.field, ".byte_size"),
          StrCat("byte_size ", room, " is less than the output's ", bytes,
                 " bytes"));
    }
    output.written.set_byte_size(static_cast<int64_t>(bytes));
  }
  if (outputs_.size() == 2 &&
      outputs_[0].region.SharesObjectWith(outputs_[1].region) &&
      Overlap(outputs_[0].written, outputs_[1].written)) {
    return InvalidArgument("SHARED_MEMORY_OVERLAP", outputs_[1].field,
                           "the regions of values and indices overlap");
  }
  // Outputs are computed in private memory and copied here, because other
  // processes may write to the regions at any time.
  for (const Output& output : outputs_) {
    v1::Tensor& tensor = *(response.*output.mutable_tensor)();
    if (Status s =
            CopyTo(output.region, output.field,
                   std::as_bytes(std::span(tensor.data())), cancellation);
        !s.ok()) {
      return s;
    }
    DiscardData(tensor);
    *tensor.mutable_shared_memory() = output.written;
  }
  return {};
}

}  // namespace topk
