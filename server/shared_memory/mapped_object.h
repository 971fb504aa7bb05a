// One POSIX shared memory object, mapped.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/base/status.h"
#include "server/shared_memory/bus_error.h"

namespace topk {

/// The access to an object's bytes.
enum class Access { kRead, kWrite };

/// A mapping of all that an object has when it is mapped. Nothing of it is
/// copied: another process may write there, and truncate it, at any time.
class MappedObject {
 public:
  /// Opens what has this name now, `field` being the path of the name.
  /// INVALID_ARGUMENT if that is nothing, or no shared memory;
  /// PERMISSION_DENIED if this process may not; RESOURCE_EXHAUSTED if it can
  /// open no more.
  static Result<std::shared_ptr<MappedObject>> Open(const std::string& name,
                                                    Access access,
                                                    const std::string& field);
  ~MappedObject();
  MappedObject(const MappedObject&) = delete;
  MappedObject& operator=(const MappedObject&) = delete;

  /// Whether this is the same object as the other, of the same size, and all
  /// of it is still there.
  bool IsLike(const MappedObject& other) const;

  /// Whether it has a name, or was unlinked.
  bool IsNamed() const;

  /// Its size when it was opened, in bytes.
  int64_t size() const { return static_cast<int64_t>(info_.st_size); }
  /// Maps it, unless that was done. RESOURCE_EXHAUSTED if it cannot be.
  Status Map(const std::string& field);
  /// A part of it. REQUIRES: Map() was OK, and the part is within size().
  std::span<std::byte> part(int64_t offset, int64_t bytes) const;

  /// Whether the part has no holes. The system allocates memory for a hole that
  /// this process reads, and charges this process for it. Best effort: a peer
  /// can punch holes afterwards, or hide as many as it has allocated pages
  /// beyond the object's end.
  bool HasMemory(int64_t offset, int64_t bytes) const;

  /// Whether the object has had at least `bytes` bytes from the mapping until
  /// now.
  bool StillHas(int64_t bytes) const;

 private:
  MappedObject(int descriptor, const struct stat& info, Access access)
      : descriptor_(descriptor), info_(info), access_(access) {}

  const int descriptor_;
  struct stat info_;
  const Access access_;
  std::span<std::byte> memory_;
  std::optional<BusGuard> guard_;
};

}  // namespace topk
