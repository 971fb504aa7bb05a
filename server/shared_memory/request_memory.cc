#include "server/shared_memory/request_memory.h"

#include <algorithm>
#include <utility>

#include "core/base/text.h"

namespace topk {
namespace {

constexpr char kTensor[] = "tensor.shared_memory";

// Whether two parts have bytes in common. REQUIRES: both lie in their objects.
bool Overlap(const v1::SharedMemoryRegion& a, const v1::SharedMemoryRegion& b) {
  return a.name() == b.name() && a.offset() < b.offset() + b.byte_size() &&
         b.offset() < a.offset() + a.byte_size();
}

}  // namespace

Status CheckLocal(bool is_local, const std::string& field) {
  if (is_local) return {};
  return {Code::kPermissionDenied, "SHARED_MEMORY_REMOTE", field,
          "shared memory is for clients of this machine: connect to a unix: "
          "socket or a loopback address"};
}

Status RequestMemory::OpenTensor(const v1::TopKRequest& request,
                                 bool is_local) {
  if (objects_ == nullptr || !request.tensor().has_shared_memory()) return {};
  if (Status s = CheckLocal(is_local, kTensor); !s.ok()) return s;
  Result<SharedRegion> region =
      objects_->Open(request.tensor().shared_memory(), Access::kRead, kTensor);
  if (!region.ok()) return region.status();
  tensor_ = *std::move(region);
  return {};
}

Status RequestMemory::OpenOutputs(v1::TopKRequest& request, bool is_local) {
  if (objects_ == nullptr || !request.has_output()) return {};
  v1::OutputOptions& output = *request.mutable_output();
  const v1::OutputSelection selection = output.selection();
  if (output.has_values()) {
    if (Status s =
            OpenOutput(output.values(), "output.values", is_local,
                       selection != v1::OUTPUT_SELECTION_INDICES_ONLY, values_);
        !s.ok()) {
      return s;
    }
  }
  if (output.has_indices()) {
    if (Status s =
            OpenOutput(output.indices(), "output.indices", is_local,
                       selection != v1::OUTPUT_SELECTION_VALUES_ONLY, indices_);
        !s.ok()) {
      return s;
    }
  }
  output.clear_values();
  output.clear_indices();
  return {};
}

Status RequestMemory::OpenOutput(const v1::SharedMemoryRegion& asked,
                                 std::string field, bool is_local,
                                 bool selected, std::optional<Output>& output) {
  if (Status s = CheckLocal(is_local, field); !s.ok()) return s;
  if (!selected) {
    return InvalidArgument(
        "OUTPUT_NOT_SELECTED", field,
        StrCat(field, " is a place for what output.selection leaves out"));
  }
  Result<SharedRegion> region = objects_->Open(asked, Access::kWrite, field);
  if (!region.ok()) return region.status();
  output = {std::move(field), asked, *std::move(region)};
  return {};
}

std::optional<std::span<const std::byte>> RequestMemory::tensor() const {
  if (!tensor_.has_value()) return std::nullopt;
  return tensor_->bytes();
}

Status RequestMemory::CheckWritten() const {
  return tensor_.has_value() ? tensor_->CheckWritten(kTensor) : Status();
}

Status RequestMemory::CheckTensor() const {
  return tensor_.has_value() ? tensor_->Check(kTensor) : Status();
}

Status RequestMemory::Deliver(v1::TopKResponse& answer) const {
  const size_t values = answer.values().data().size();
  const size_t indices = answer.indices().data().size();
  if (values_.has_value()) {
    if (Status s = values_->CheckRoom(values); !s.ok()) return s;
  }
  if (indices_.has_value()) {
    if (Status s = indices_->CheckRoom(indices); !s.ok()) return s;
  }
  if (values_.has_value() && indices_.has_value() &&
      Overlap(values_->Part(values), indices_->Part(indices))) {
    return InvalidArgument("SHARED_MEMORY_OVERLAP", indices_->field,
                           "values and indices have one place in the object");
  }
  if (values_.has_value()) {
    if (Status s = values_->Take(*answer.mutable_values()); !s.ok()) return s;
  }
  return indices_.has_value() ? indices_->Take(*answer.mutable_indices())
                              : Status();
}

Status RequestMemory::Output::CheckRoom(size_t bytes) const {
  if (bytes <= region.bytes().size()) return {};
  return InvalidArgument(
      "SHARED_MEMORY_TOO_SMALL", StrCat(field, ".byte_size"),
      StrCat("byte_size ", region.bytes().size(), " is less than the output's ",
             bytes, " bytes"));
}

v1::SharedMemoryRegion RequestMemory::Output::Part(size_t bytes) const {
  v1::SharedMemoryRegion part = asked;
  part.set_byte_size(static_cast<int64_t>(bytes));
  return part;
}

// It was computed elsewhere: others may write to the region at any time.
Status RequestMemory::Output::Take(v1::Tensor& tensor) const {
  const auto data = std::as_bytes(std::span(tensor.data()));
  std::ranges::copy(data, region.bytes().begin());
  if (Status s = region.Check(field); !s.ok()) return s;
  v1::SharedMemoryRegion part = Part(data.size());
  *tensor.mutable_shared_memory() = std::move(part);
  return {};
}

}  // namespace topk
