#include "server/oip/regions.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/checked.h"
#include "core/base/text.h"
#include "server/oip/models.h"
#include "server/shared_memory/request_memory.h"

namespace topk {
namespace {

constexpr size_t kMaxName = 256;

Status CheckName(const std::string& name) {
  if (!name.empty() && name.size() <= kMaxName) return {};
  return InvalidArgument("SHARED_MEMORY_REGION", "name",
                         StrCat("a region's name must have 1 to ", kMaxName,
                                " bytes, not ", name.size()));
}

// Converts the field of a region, e.g. ".offset", to the field of a
// registration, whose field `key` identifies the memory, like `name` in the
// region.
Status InRegistration(Status status, std::string_view name,
                      std::string_view key) {
  if (status.field == name) status.field = key;
  if (status.field.starts_with('.')) status.field.erase(0, 1);
  return status;
}

// Uses Triton's wording, because clients search error messages for it.
Status NotFound(const std::string& name) {
  return {Code::kNotFound, "SHARED_MEMORY_REGION", "shared_memory_region",
          StrCat("Unable to find shared memory region: ", SingleQuote(name))};
}

}  // namespace

Status Regions::Register(
    const inference::SystemSharedMemoryRegisterRequest& request,
    const Caller& caller) {
  if (objects_ == nullptr) return MemoryNotAllowed(false, "key");
  if (Status s = CheckLocal(caller.is_local, "key"); !s.ok()) return s;
  if (Status s = CheckName(request.name()); !s.ok()) return s;
  v1::SharedMemoryRegion region;
  region.set_name(request.key());
  region.set_offset(Size(request.offset()).value());
  region.set_byte_size(Size(request.byte_size()).value());
  // Open the object only to report errors early. Only outputs need kWrite.
  const Result<SharedRegion> opened = objects_->Open(region, Access::kRead, "");
  if (!opened.ok()) return InRegistration(opened.status(), ".name", "key");
  return Insert(request.name(), {std::move(region), caller.key, nullptr});
}

Status Regions::Register(
    const inference::CudaSharedMemoryRegisterRequest& request,
    const Caller& caller) {
  if (devices_ == nullptr) return MemoryNotAllowed(true, "raw_handle");
  if (Status s = CheckLocal(caller.is_local, "raw_handle"); !s.ok()) return s;
  if (Status s = CheckName(request.name()); !s.ok()) return s;
  const auto& devices = devices_->found_devices();
  const auto device = std::ranges::find_if(devices, [&](const auto& each) {
    return each.number == request.device_id();
  });
  if (!devices.empty() && device == devices.end()) {
    return InvalidArgument(
        "CUDA_MEMORY_DEVICE", "device_id",
        StrCat("this server does not use a CUDA device ", request.device_id()));
  }
  v1::CudaMemoryRegion region;
  region.set_ipc_handle(request.raw_handle());
  if (device != devices.end()) region.set_device_uuid(device->uuid);
  region.set_byte_size(Size(request.byte_size()).value());
  auto opened = devices_->OpenMemory(
      {region.ipc_handle(), region.device_uuid(), 0, region.byte_size()}, "");
  if (!opened.ok()) {
    return InRegistration(opened.status(), ".ipc_handle", "raw_handle");
  }
  return Insert(request.name(), {std::move(region), caller.key,
                                 *std::move(opened), device->number});
}

Status Regions::Insert(const std::string& name, Region region) {
  const MutexLock lock(mutex_);
  if (regions_.contains(name)) {
    return {Code::kAlreadyExists, "SHARED_MEMORY_REGION", "name",
            StrCat("shared memory region ", SingleQuote(name),
                   " already in manager")};
  }
  if (regions_.size() >= kMax) {
    return ResourceExhausted("SHARED_MEMORY_REGIONS", "name",
                             StrCat("all ", kMax, " regions are in use"));
  }
  const auto is_own = [&region](const auto& entry) {
    return entry.second.owner == region.owner;
  };
  if (std::ranges::count_if(regions_, is_own) >= int64_t{kMaxOfClient}) {
    return ResourceExhausted("SHARED_MEMORY_REGIONS", "name",
                             StrCat("this client already has ", kMaxOfClient,
                                    " registered regions, the maximum"));
  }
  regions_.emplace(name, std::move(region));
  return {};
}

Status Regions::Unregister(const std::string& name, const Caller& caller,
                           bool is_cuda) {
  // CUDA memory is closed after the mutex is unlocked.
  std::vector<std::shared_ptr<DeviceMemory>> closed;
  const MutexLock lock(mutex_);
  for (auto next = regions_.begin(); next != regions_.end();) {
    const auto each = next++;
    Region& region = each->second;
    if (std::holds_alternative<v1::CudaMemoryRegion>(region.memory) !=
        is_cuda) {
      continue;
    }
    if (!name.empty() && each->first != name) continue;
    if (region.owner != caller.key) {
      if (name.empty()) continue;
      return {Code::kPermissionDenied, "SHARED_MEMORY_REGION", "name",
              StrCat("shared memory region ", SingleQuote(name),
                     " was registered by another client")};
    }
    closed.push_back(std::move(region.open));
    regions_.erase(each);
  }
  return {};
}

template <class Memory, class Response, class Fill>
Status Regions::ListKind(const std::string& name, Response& to,
                         Fill fill) const {
  const MutexLock lock(mutex_);
  for (const auto& [key, region] : regions_) {
    const auto* const memory = std::get_if<Memory>(&region.memory);
    if (memory == nullptr || (!name.empty() && key != name)) continue;
    auto& row = (*to.mutable_regions())[key];
    row.set_name(key);
    row.set_byte_size(static_cast<uint64_t>(memory->byte_size()));
    fill(*memory, region, row);
  }
  if (!name.empty() && to.regions().empty()) return NotFound(name);
  return {};
}

Status Regions::List(const std::string& name,
                     inference::SystemSharedMemoryStatusResponse& to) const {
  return ListKind<v1::SharedMemoryRegion>(
      name, to, [](const auto& memory, const Region&, auto& row) {
        row.set_key(memory.name());
        row.set_offset(static_cast<uint64_t>(memory.offset()));
      });
}

Status Regions::List(const std::string& name,
                     inference::CudaSharedMemoryStatusResponse& to) const {
  return ListKind<v1::CudaMemoryRegion>(
      name, to, [](const auto&, const Region& region, auto& row) {
        row.set_device_id(static_cast<uint64_t>(region.device_number));
      });
}

Result<MemoryRegion> Regions::Find(const std::string& name, int64_t offset,
                                   int64_t byte_size) const {
  if (objects_ == nullptr && devices_ == nullptr) {
    return MemoryNotAllowed(false, "shared_memory_region");
  }
  const MutexLock lock(mutex_);
  const auto found = regions_.find(name);
  if (found == regions_.end()) return NotFound(name);
  MemoryRegion part = found->second.memory;
  const Status status = std::visit(
      [&](auto& memory) -> Status {
        if (offset < 0 || byte_size < 0 || offset > memory.byte_size() ||
            byte_size > memory.byte_size() - offset) {
          return InvalidArgument(
              "SHARED_MEMORY_RANGE", "shared_memory_byte_size",
              StrCat("Invalid offset + byte size for shared memory region: ",
                     SingleQuote(name), ": ", offset, " + ", byte_size, " of ",
                     memory.byte_size()));
        }
        memory.set_offset(memory.offset() + offset);
        memory.set_byte_size(byte_size);
        return {};
      },
      part);
  if (!status.ok()) return status;
  return part;
}

}  // namespace topk
