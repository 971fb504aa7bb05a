#include "server/shared_memory/mapped_object.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "core/base/checked.h"
#include "core/base/deferred_free.h"
#include "core/base/text.h"

namespace topk {
namespace {

// Sparse objects need no memory, but could fill the address space of 128 TiB.
constexpr int64_t kMaxMappedBytes = int64_t{64} << 40;  // of all objects
constexpr int64_t kMaxObjectBytes = int64_t{256} << 30;
std::atomic<int64_t> mapped_bytes = 0;  // of all mapped objects

// Returns an error that is not retryable.
Status CannotMap(const std::string& field, int64_t bytes,
                 const std::string& reason) {
  return ResourceExhausted(
      "SHARED_MEMORY_EXHAUSTED", field,
      StrCat("the object's ", bytes, " bytes cannot be mapped: ", reason));
}

// Returns a retryable error, because other requests will release resources.
Status Exhausted(std::string message) {
  return ResourceExhausted("SHARED_MEMORY_EXHAUSTED", "server",
                           std::move(message), std::chrono::seconds(1));
}

Status CannotOpen(const std::string& name, const std::string& field,
                  int error) {
  std::string message = StrCat("the shared memory object ", Quote(name),
                               " cannot be opened: ", ErrnoText(error));
  if (error == EMFILE || error == ENFILE || error == ENOMEM) {
    return Exhausted(std::move(message));
  }
  Status status =
      InvalidArgument("SHARED_MEMORY_NOT_FOUND", field, std::move(message));
  if (error == EACCES || error == EPERM) {
    status.code = Code::kPermissionDenied;
    status.reason = "SHARED_MEMORY_DENIED";
  }
  return status;
}

}  // namespace

Result<std::shared_ptr<MappedObject>> MappedObject::Open(
    const std::string& name, Access access, const std::string& field) {
  // shm_open() does not follow links. O_NONBLOCK prevents shm_open() from
  // blocking if the name belongs to a FIFO without a writer.
  const int mode = access == Access::kWrite ? O_RDWR : O_RDONLY;
  const int fd = shm_open(name.c_str(), mode | O_NONBLOCK, 0);
  if (fd < 0) return CannotOpen(name, field, errno);
  struct stat info {};
  const int failed = fstat(fd, &info);
  // A poller may release the last reference, so defer slow cleanup: unmapping
  // may wait for other processes, and closing an unlinked object may free
  // memory.
  std::shared_ptr<MappedObject> object(
      new MappedObject(fd, info, access), [](MappedObject* unowned) {
        std::unique_ptr<MappedObject> owned(unowned);
        if (owned->used_guard_ != nullptr || !owned->IsLinked()) {
          DeferFree(std::move(owned), 0);  // its memory is not ours
        }
      });
  if (failed != 0 || !S_ISREG(info.st_mode)) {
    return InvalidArgument(
        "SHARED_MEMORY_NAME", field,
        StrCat(Quote(name), " is not the name of a shared memory object"));
  }
  return object;
}

MappedObject::~MappedObject() {
  {
    const MutexLock lock(mutex_);
    Unmap();
  }
  close(descriptor_);
}

void MappedObject::Unmap() {
  guard_.reset();
  if (memory_.empty()) return;
  // Unmapping takes a lock that other threads need, so use small steps.
  constexpr size_t kStep = size_t{64} << 20;
  for (size_t begin = 0; begin < memory_.size(); begin += kStep) {
    munmap(memory_.data() + begin, std::min(kStep, memory_.size() - begin));
  }
  mapped_bytes -= size();
  memory_ = {};
}

bool MappedObject::IsSameAs(const MappedObject& other) const {
  return info_.st_dev == other.info_.st_dev &&
         info_.st_ino == other.info_.st_ino &&
         info_.st_size == other.info_.st_size && StillHas(size());
}

bool MappedObject::IsLinked() const {
  struct stat now {};
  return fstat(descriptor_, &now) == 0 && now.st_nlink > 0;
}

Result<std::span<std::byte>> MappedObject::Map(const std::string& field) {
  const MutexLock lock(mutex_);
  if (!memory_.empty() || size() == 0) return memory_;
  const auto bytes = static_cast<size_t>(size());
  if (size() > kMaxObjectBytes) {
    return CannotMap(field, size(),
                     StrCat("the maximum is ", kMaxObjectBytes, " bytes"));
  }
  if (!AddWithin(kMaxMappedBytes, size(), mapped_bytes)) {
    return Exhausted(
        StrCat("together, the shared memory objects in use would exceed the "
               "limit of ",
               kMaxMappedBytes, " bytes"));
  }
  const int protection =
      access_ == Access::kWrite ? PROT_READ | PROT_WRITE : PROT_READ;
  void* const memory =
      mmap(nullptr, bytes, protection, MAP_SHARED, descriptor_, 0);
  const int error = errno;
  if (memory == MAP_FAILED) {  // the object is too large for this machine
    mapped_bytes -= size();
    return CannotMap(field, size(), ErrnoText(error));
  }
  memory_ = {static_cast<std::byte*>(memory), bytes};
  guard_.emplace(memory_, access_ == Access::kWrite);
  if (guard_->guards()) {
    used_guard_ = &*guard_;
    return memory_;
  }
  Unmap();
  return Exhausted("too many shared memory objects are in use at a time");
}

bool MappedObject::IsSparse() const {
  constexpr int64_t kBlockBytes = 512;
  struct stat now {};
  return fstat(descriptor_, &now) != 0 ||
         now.st_blocks * kBlockBytes < now.st_size;
}

bool MappedObject::Read(int64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t bytes = pread(descriptor_, to.data(), to.size(), offset);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) return false;
    to = to.subspan(static_cast<size_t>(bytes));
    offset += bytes;
  }
  return true;
}

bool MappedObject::StillHas(int64_t bytes) const {
  const BusGuard* const guard = used_guard_;
  if (guard != nullptr && guard->broken()) return false;
  struct stat now {};
  return fstat(descriptor_, &now) == 0 && now.st_size >= bytes;
}

}  // namespace topk
