#include "server/oip/regions.h"

#include <algorithm>
#include <limits>

#include "core/base/text.h"
#include "server/oip/text.h"

namespace topk {
namespace {

constexpr size_t kMaxName = 256;

// As a signed number, which is too large to be right if it does not fit.
int64_t Signed(uint64_t number) {
  constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(std::min(number, kMax));
}

// Triton's words, which its clients look for.
Status NotFound(const std::string& name) {
  return {Code::kNotFound, "SHARED_MEMORY_REGION", "shared_memory_region",
          StrCat("Unable to find shared memory region: ", Tick(name))};
}

}  // namespace

Status Regions::CheckAllowed() const {
  if (objects_ != nullptr) return {};
  return Unimplemented(
      "SHARED_MEMORY_NOT_ALLOWED", "key",
      "this server allows no shared memory (--allow-shared-memory)");
}

Status Regions::Register(
    const inference::SystemSharedMemoryRegisterRequest& request) {
  if (Status s = CheckAllowed(); !s.ok()) return s;
  const std::string& name = request.name();
  if (name.empty() || name.size() > kMaxName) {
    return InvalidArgument("SHARED_MEMORY_REGION", "name",
                           StrCat("a region's name has 1 to ", kMaxName,
                                  " bytes, not ", name.size()));
  }
  v1::SharedMemoryRegion region;
  region.set_name(request.key());
  region.set_offset(Signed(request.offset()));
  region.set_byte_size(Signed(request.byte_size()));
  // Its mistakes now. Many clients only read what they register as inputs.
  const Result<SharedRegion> opened =
      objects_->Open(region, Access::kRead, "key");
  if (!opened.ok()) {
    // This request has the region's name in `key`, the rest at its top.
    Status status = opened.status();
    constexpr std::string_view kKey = "key.";
    if (status.field == "key.name") {
      status.field = "key";
    } else if (status.field.starts_with(kKey)) {
      status.field.erase(0, kKey.size());
    }
    return status;
  }
  const std::lock_guard lock(mutex_);
  if (regions_.contains(name)) {
    return {Code::kAlreadyExists, "SHARED_MEMORY_REGION", "name",
            StrCat("shared memory region ", Tick(name), " already in manager")};
  }
  if (regions_.size() >= kMax) {
    return ResourceExhausted("SHARED_MEMORY_REGIONS", "name",
                             StrCat("there are ", kMax, " regions already"));
  }
  regions_.emplace(name, std::move(region));
  return {};
}

void Regions::Unregister(const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (name.empty()) {
    regions_.clear();
  } else {
    regions_.erase(name);
  }
}

Status Regions::List(const std::string& name,
                     inference::SystemSharedMemoryStatusResponse& to) const {
  const std::lock_guard lock(mutex_);
  if (!name.empty() && !regions_.contains(name)) return NotFound(name);
  for (const auto& [known, region] : regions_) {
    if (!name.empty() && known != name) continue;
    auto& row = (*to.mutable_regions())[known];
    row.set_name(known);
    row.set_key(region.name());
    row.set_offset(static_cast<uint64_t>(region.offset()));
    row.set_byte_size(static_cast<uint64_t>(region.byte_size()));
  }
  return {};
}

Result<v1::SharedMemoryRegion> Regions::Find(const std::string& name,
                                             int64_t offset,
                                             int64_t byte_size) const {
  if (Status s = CheckAllowed(); !s.ok()) return s;
  const std::lock_guard lock(mutex_);
  const auto found = regions_.find(name);
  if (found == regions_.end()) return NotFound(name);
  v1::SharedMemoryRegion part = found->second;
  if (offset < 0 || byte_size < 0 || offset > part.byte_size() ||
      byte_size > part.byte_size() - offset) {
    return InvalidArgument(
        "SHARED_MEMORY_RANGE", "shared_memory_byte_size",
        StrCat(
            "Invalid offset + byte size for shared memory region: ", Tick(name),
            ": ", offset, " + ", byte_size, " of ", part.byte_size()));
  }
  part.set_offset(part.offset() + offset);
  part.set_byte_size(byte_size);
  return part;
}

}  // namespace topk
