#include "server/oip/regions.h"

#include <algorithm>
#include <string_view>

#include "core/base/checked.h"
#include "core/base/text.h"
#include "server/oip/models.h"
#include "server/shared_memory/request_memory.h"

namespace topk {
namespace {

constexpr size_t kMaxName = 256;

// Uses Triton's wording, because clients search error messages for it.
Status NotFound(const std::string& name) {
  return {Code::kNotFound, "SHARED_MEMORY_REGION", "shared_memory_region",
          StrCat("Unable to find shared memory region: ", SingleQuote(name))};
}

}  // namespace

Status Regions::CheckAllowed() const {
  if (objects_ != nullptr) return {};
  return Unimplemented(
      "SHARED_MEMORY_NOT_ALLOWED", "key",
      "this server does not allow shared memory (--allow-shared-memory)");
}

Status Regions::Register(
    const inference::SystemSharedMemoryRegisterRequest& request,
    const Caller& caller) {
  if (Status s = CheckAllowed(); !s.ok()) return s;
  if (Status s = CheckLocal(caller.is_local, "key"); !s.ok()) return s;
  const std::string& name = request.name();
  if (name.empty() || name.size() > kMaxName) {
    return InvalidArgument("SHARED_MEMORY_REGION", "name",
                           StrCat("a region's name must have 1 to ", kMaxName,
                                  " bytes, not ", name.size()));
  }
  v1::SharedMemoryRegion region;
  region.set_name(request.key());
  region.set_offset(Size(request.offset()).value());
  region.set_byte_size(Size(request.byte_size()).value());
  // Open the object only to report errors early. Only outputs need kWrite.
  const Result<SharedRegion> opened =
      objects_->Open(region, Access::kRead, "key");
  if (!opened.ok()) {
    // Convert the fields that Open() reports, e.g. key.offset, to the fields of
    // this request.
    Status status = opened.status();
    constexpr std::string_view kPrefix = "key.";
    if (status.field == "key.name") status.field = "key";
    if (status.field.starts_with(kPrefix)) {
      status.field.erase(0, kPrefix.size());
    }
    return status;
  }
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
  const auto is_own = [&caller](const auto& entry) {
    return entry.second.owner == caller.key;
  };
  if (std::ranges::count_if(regions_, is_own) >= int64_t{kMaxOfClient}) {
    return ResourceExhausted("SHARED_MEMORY_REGIONS", "name",
                             StrCat("this client already has ", kMaxOfClient,
                                    " registered regions, the maximum"));
  }
  regions_.emplace(name, Region{std::move(region), caller.key});
  return {};
}

Status Regions::Unregister(const std::string& name, const Caller& caller) {
  const MutexLock lock(mutex_);
  if (name.empty()) {
    std::erase_if(regions_, [&caller](const auto& entry) {
      return entry.second.owner == caller.key;
    });
    return {};
  }
  const auto found = regions_.find(name);
  if (found == regions_.end()) return {};
  if (found->second.owner != caller.key) {
    return {Code::kPermissionDenied, "SHARED_MEMORY_REGION", "name",
            StrCat("shared memory region ", SingleQuote(name),
                   " was registered by another client")};
  }
  regions_.erase(found);
  return {};
}

Status Regions::List(const std::string& name,
                     inference::SystemSharedMemoryStatusResponse& to) const {
  const MutexLock lock(mutex_);
  if (!name.empty() && !regions_.contains(name)) return NotFound(name);
  for (const auto& [key, region] : regions_) {
    if (!name.empty() && key != name) continue;
    auto& row = (*to.mutable_regions())[key];
    row.set_name(key);
    row.set_key(region.memory.name());
    row.set_offset(static_cast<uint64_t>(region.memory.offset()));
    row.set_byte_size(static_cast<uint64_t>(region.memory.byte_size()));
  }
  return {};
}

Result<v1::SharedMemoryRegion> Regions::Find(const std::string& name,
                                             int64_t offset,
                                             int64_t byte_size) const {
  if (Status s = CheckAllowed(); !s.ok()) return s;
  const MutexLock lock(mutex_);
  const auto found = regions_.find(name);
  if (found == regions_.end()) return NotFound(name);
  v1::SharedMemoryRegion part = found->second.memory;
  if (offset < 0 || byte_size < 0 || offset > part.byte_size() ||
      byte_size > part.byte_size() - offset) {
    return InvalidArgument(
        "SHARED_MEMORY_RANGE", "shared_memory_byte_size",
        StrCat("Invalid offset + byte size for shared memory region: ",
               SingleQuote(name), ": ", offset, " + ", byte_size, " of ",
               part.byte_size()));
  }
  part.set_offset(part.offset() + offset);
  part.set_byte_size(byte_size);
  return part;
}

}  // namespace topk
