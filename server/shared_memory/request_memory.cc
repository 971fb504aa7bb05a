#include "server/shared_memory/request_memory.h"

#include <algorithm>
#include <utility>

#include "core/base/checked.h"
#include "core/base/dtype.h"
#include "core/base/text.h"

namespace topk {
namespace {

constexpr char kSharedTensor[] = "tensor.shared_memory";
constexpr char kCudaTensor[] = "tensor.cuda_memory";

// Returns whether two valid regions of the same object overlap.
bool Overlap(const v1::SharedMemoryRegion& a, const v1::SharedMemoryRegion& b) {
  return a.offset() < b.offset() + b.byte_size() &&
         b.offset() < a.offset() + a.byte_size();
}

bool AddressesOverlap(std::span<const std::byte> a,
                      std::span<const std::byte> b) {
  const auto begin = [](auto bytes) {
    return reinterpret_cast<uintptr_t>(bytes.data());
  };
  return begin(a) < begin(b) + b.size() && begin(b) < begin(a) + a.size();
}

// Converts a region to `to`. Returns INVALID_ARGUMENT if no memory can contain
// the region, and the errors of CheckDevice().
Status Convert(const v1::CudaMemoryRegion& from, const Engine& devices,
               const std::string& field, DeviceRegion& to) {
  int64_t end = 0;
  if (from.offset() < 0 || from.byte_size() < 0 ||
      !CheckedAdd(from.offset(), from.byte_size(), &end)) {
    return InvalidArgument(
        "CUDA_MEMORY_RANGE",
        StrCat(field, from.offset() < 0 ? ".offset" : ".byte_size"),
        StrCat("offset ", from.offset(), " and byte_size ", from.byte_size(),
               " must be at least 0, and their sum less than 2^63"));
  }
  to = {from.ipc_handle(), from.device_uuid(), from.offset(), from.byte_size()};
  return devices.CheckDevice(to.device_uuid, field);
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
          "only clients on the server's machine may use shared memory or CUDA "
          "memory: connect to a unix: socket or a loopback address"};
}

Status RequestMemory::OpenTensor(v1::TopKRequest& request, bool is_local) {
  if (!request.has_tensor()) return {};
  v1::Tensor& tensor = *request.mutable_tensor();
  if (devices_ != nullptr && tensor.has_cuda_memory()) {
    if (Status s = CheckLocal(is_local, kCudaTensor); !s.ok()) return s;
    DeviceRegion region;
    if (Status s =
            Convert(tensor.cuda_memory(), *devices_, kCudaTensor, region);
        !s.ok()) {
      return s;
    }
    // The kernels require aligned elements.
    const DTypeInfo* const type = FindDType(tensor.data_type());
    if (type != nullptr && region.offset % type->bytes != 0) {
      return InvalidArgument(
          "CUDA_MEMORY_RANGE", StrCat(kCudaTensor, ".offset"),
          StrCat("offset ", region.offset, " is not a multiple of the size of ",
                 type->name, ", ", type->bytes, " bytes"));
    }
    tensor.clear_source();
    copied_bytes_ = region.bytes;
    device_tensor_ = std::move(region);
    return {};
  }
  if (objects_ == nullptr || !tensor.has_shared_memory()) return {};
  if (Status s = CheckLocal(is_local, kSharedTensor); !s.ok()) return s;
  Result<SharedRegion> region =
      objects_->Open(tensor.shared_memory(), Access::kRead, kSharedTensor);
  if (!region.ok()) return region.status();
  tensor.clear_source();
  tensor_ = *std::move(region);
  if (tensor_->IsSparse()) copied_bytes_ = *tensor_bytes();
  return {};
}

Status RequestMemory::OpenOutputs(v1::TopKRequest& request, bool is_local) {
  if (!request.has_output()) return {};
  v1::OutputOptions& options = *request.mutable_output();
  for (const bool is_values : {true, false}) {
    const bool is_shared =
        is_values ? options.has_values() : options.has_indices();
    const bool is_cuda =
        is_values ? options.has_cuda_values() : options.has_cuda_indices();
    if (is_shared ? objects_ == nullptr : !is_cuda || devices_ == nullptr) {
      continue;
    }
    Output output;
    output.is_values = is_values;
    output.field = StrCat("output.", is_cuda ? "cuda_" : "",
                          is_values ? "values" : "indices");
    if (Status s = CheckLocal(is_local, output.field); !s.ok()) return s;
    if (options.selection() == (is_values ? v1::OUTPUT_SELECTION_INDICES_ONLY
                                          : v1::OUTPUT_SELECTION_VALUES_ONLY)) {
      return InvalidArgument("OUTPUT_NOT_SELECTED", output.field,
                             StrCat(output.field,
                                    " is set, but output.selection omits this "
                                    "output"));
    }
    if (is_shared) {
      const auto& named = is_values ? options.values() : options.indices();
      Result<SharedRegion> region =
          objects_->Open(named, Access::kWrite, output.field);
      if (!region.ok()) return region.status();
      output.shared = *std::move(region);
      *output.written.mutable_shared_memory() = named;
    } else {
      const auto& named =
          is_values ? options.cuda_values() : options.cuda_indices();
      Status s = Convert(named, *devices_, output.field, output.device);
      if (!s.ok()) return s;
      *output.written.mutable_cuda_memory() = named;
    }
    outputs_.push_back(std::move(output));
    is_values ? options.clear_values_region() : options.clear_indices_region();
  }
  return {};
}

std::optional<int64_t> RequestMemory::tensor_bytes() const {
  if (device_tensor_) return device_tensor_->bytes;
  if (tensor_) return tensor_->size();
  return std::nullopt;
}

int64_t RequestMemory::buffer_bytes() const {
  const bool is_used =
      device_tensor_.has_value() ||
      std::ranges::any_of(outputs_, [](const Output& o) { return !o.shared; });
  return is_used ? DeviceMemory::kBufferBytes : 0;
}

const char* RequestMemory::tensor_field() const {
  return device_tensor_ ? kCudaTensor : kSharedTensor;
}

std::string RequestMemory::device_uuid() const {
  return device_tensor_ ? device_tensor_->device_uuid : "";
}

void RequestMemory::AddCost(PreparedRequest& request) const {
  if (request.resident != nullptr) return;
  request.cost.working_bytes += Size(copied_bytes_) + buffer_bytes();
  request.cost.nanoseconds += CopyNanoseconds(copied_bytes_);
}

Result<v1::TopKResponse> RequestMemory::Run(const Engine& engine,
                                            const PreparedRequest& request,
                                            Chunks data,
                                            const Cancellation* cancellation) {
  if (request.resident != nullptr) return RunResident(request, cancellation);
  if (!tensor_bytes()) return engine.Run(request, data, cancellation);
  const auto tensor = ReadTensor(cancellation);
  if (!tensor.ok()) return tensor.status();
  return engine.Run(request, {&*tensor, 1}, cancellation);
}

Result<std::span<const std::byte>> RequestMemory::ReadTensor(
    const Cancellation* cancellation) {
  if (device_tensor_) {
    const auto memory = devices_->OpenMemory(*device_tensor_, kCudaTensor);
    if (!memory.ok()) return memory.status();
    copy_.resize(static_cast<size_t>(copied_bytes_));
    if (Status s = (*memory)->Read(copy_, cancellation); !s.ok()) return s;
    return std::span<const std::byte>(copy_);
  }
  if (copied_bytes_ == 0) {
    const auto mapped = tensor_->Map(kSharedTensor);
    if (!mapped.ok()) return mapped.status();
    return std::span<const std::byte>(*mapped);
  }
  Result<SharedRegion::Bytes> copy = tensor_->Copy(kSharedTensor, cancellation);
  if (!copy.ok()) return copy.status();
  copy_ = *std::move(copy);
  return std::span<const std::byte>(copy_);
}

Result<v1::TopKResponse> RequestMemory::RunResident(
    const PreparedRequest& request, const Cancellation* cancellation) {
  const Plan& plan = *request.plan;
  const auto regions = OpenOutputRegions();
  if (!regions.ok()) return regions.status();
  const auto tensor = devices_->OpenMemory(*device_tensor_, kCudaTensor);
  if (!tensor.ok()) return tensor.status();
  ResidentMemory memory{tensor->get()};
  for (size_t i = 0; i < outputs_.size(); ++i) {
    Output& output = outputs_[i];
    if (output.shared || output.device.device_uuid != device_uuid()) continue;
    // The device writes only elements. Let Deliver() write the padding too.
    const bool is_padded =
        output.is_values
            ? plan.values.bytes !=
                  plan.output_elements() * InfoOf(plan.dtype).bytes
            : plan.indices.bytes !=
                  plan.output_elements() * InfoOf(plan.index_type).bytes;
    if (is_padded) continue;
    // Outputs are written before all of the tensor is read. Let Deliver() write
    // an output that overlaps the tensor.
    const DeviceMemory& region = *(*regions)[i];
    if (AddressesOverlap((*tensor)->bytes(), region.bytes())) continue;
    (output.is_values ? memory.values : memory.indices) = &region;
    output.is_written = true;
  }
  return devices_->RunResident(request, memory, cancellation);
}

Status RequestMemory::Deliver(v1::TopKResponse& response,
                              const Cancellation* cancellation) {
  Status status =
      tensor_.has_value() ? tensor_->CheckIntact(kSharedTensor) : Status();
  if (status.ok()) status = CopyOutputs(response, cancellation);
  if (!status.ok()) DiscardOutputs(response);
  return status;
}

Status RequestMemory::SetSizes(int64_t values, int64_t indices) {
  for (Output& output : outputs_) {
    const int64_t bytes = output.is_values ? values : indices;
    if (bytes > output.room()) {
      return InvalidArgument(
          output.shared ? "SHARED_MEMORY_TOO_SMALL" : "CUDA_MEMORY_TOO_SMALL",
          StrCat(output.field, ".byte_size"),
          StrCat("byte_size ", output.room(), " is less than the output's ",
                 bytes, " bytes"));
    }
    if (output.shared) {
      output.written.mutable_shared_memory()->set_byte_size(bytes);
    } else {
      output.written.mutable_cuda_memory()->set_byte_size(bytes);
    }
  }
  if (outputs_.size() != 2) return {};
  const Output& a = outputs_[0];
  const Output& b = outputs_[1];
  if (!a.shared || !b.shared || !a.shared->SharesObjectWith(*b.shared) ||
      !Overlap(a.written.shared_memory(), b.written.shared_memory())) {
    return {};
  }
  return InvalidArgument(
      "SHARED_MEMORY_OVERLAP", b.field,
      StrCat("the values, ", values, " bytes at offset ",
             a.written.shared_memory().offset(), ", and the indices, ", indices,
             " bytes at offset ", b.written.shared_memory().offset(),
             ", overlap"));
}

Result<RequestMemory::OpenRegions> RequestMemory::OpenOutputRegions() const {
  OpenRegions regions(outputs_.size());
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const Output& output = outputs_[i];
    if (output.shared || output.is_written) continue;
    auto region = devices_->OpenMemory(output.device, output.field);
    if (!region.ok()) return region.status();
    regions[i] = *std::move(region);
  }
  if (outputs_.size() != 2 || regions[0] == nullptr || regions[1] == nullptr) {
    return regions;
  }
  // Different handles may name the same memory. CUDA opens an allocation only
  // once in a process, so the addresses tell.
  const auto written = [&](size_t i) {
    return regions[i]->bytes().first(
        static_cast<size_t>(outputs_[i].written.cuda_memory().byte_size()));
  };
  if (!AddressesOverlap(written(0), written(1))) return regions;
  return InvalidArgument("CUDA_MEMORY_OVERLAP", outputs_[1].field,
                         "the regions of values and indices overlap");
}

Status RequestMemory::CopyOutputs(v1::TopKResponse& response,
                                  const Cancellation* cancellation) {
  const auto regions = OpenOutputRegions();
  if (!regions.ok()) return regions.status();
  // Outputs are computed in private memory and copied here, because other
  // processes may write to the regions at any time.
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const Output& output = outputs_[i];
    v1::Tensor& tensor = output.In(response);
    if (!output.is_written) {
      const auto data = std::as_bytes(std::span(tensor.data()));
      const Status copied =
          output.shared
              ? CopyTo(*output.shared, output.field, data, cancellation)
              : (*regions)[i]->Write(data, cancellation);
      if (!copied.ok()) return copied;
    }
    DiscardData(tensor);
    tensor.MergeFrom(output.written);
  }
  return {};
}

}  // namespace topk
