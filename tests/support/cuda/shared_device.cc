#include "tests/support/cuda/shared_device.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

namespace topk::testing {
namespace {

constexpr char kPrefix[] = "/topk-cuda-";

struct Opened {
  std::string name;
  size_t bytes;
  int count;
};

std::mutex mutex;
std::map<const std::byte*, Opened> opened;

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "simulated CUDA memory: %s\n", what);
  std::abort();
}

// Returns no bytes on failure.
std::span<std::byte> Map(int file) {
  struct stat info {};
  if (fstat(file, &info) != 0 || info.st_size == 0) return {};
  const auto bytes = static_cast<size_t>(info.st_size);
  void* const data =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (data == MAP_FAILED) return {};
  return {static_cast<std::byte*>(data), bytes};
}

bool IsOwn(const std::string& name) {
  int process = 0;
  return std::sscanf(name.c_str(), "/topk-cuda-%d-", &process) == 1 &&
         process == getpid();
}

}  // namespace

SharedAllocation::SharedAllocation(size_t bytes, int process) {
  static std::atomic<int> count = 0;
  name_ = kPrefix + std::to_string(process) + "-" + std::to_string(getpid()) +
          "-" + std::to_string(count++);
  const int file = shm_open(name_.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
  Require(file >= 0 && posix_fallocate(file, 0, static_cast<off_t>(bytes)) == 0,
          "not enough memory");
  bytes_ = Map(file);
  close(file);
  Require(!bytes_.empty(), "cannot map");
}

SharedAllocation::SharedAllocation(SharedAllocation&& other) noexcept
    : name_(std::exchange(other.name_, {})),
      bytes_(std::exchange(other.bytes_, {})) {}

SharedAllocation::~SharedAllocation() {
  if (bytes_.empty()) return;
  shm_unlink(name_.c_str());
  munmap(bytes_.data(), bytes_.size());
}

std::string SharedAllocation::handle() const {
  std::string handle = name_;
  handle.resize(kSharedHandleBytes);
  return handle;
}

std::span<std::byte> OpenShared(std::span<const std::byte> handle) {
  const char* const text = reinterpret_cast<const char*>(handle.data());
  const std::string name(text, strnlen(text, handle.size()));
  if (!name.starts_with(kPrefix) || IsOwn(name)) return {};
  const std::lock_guard lock(mutex);
  for (auto& [data, each] : opened) {
    if (each.name != name) continue;
    ++each.count;
    return {const_cast<std::byte*>(data), each.bytes};
  }
  const int file = shm_open(name.c_str(), O_RDWR, 0);
  if (file < 0) return {};
  const std::span<std::byte> memory = Map(file);
  close(file);
  if (!memory.empty()) opened[memory.data()] = {name, memory.size(), 1};
  return memory;
}

void CloseShared(const std::byte* data) {
  const std::lock_guard lock(mutex);
  const auto found = opened.find(data);
  Require(found != opened.end(), "closed more often than opened");
  if (--found->second.count > 0) return;
  munmap(const_cast<std::byte*>(data), found->second.bytes);
  opened.erase(found);
}

std::span<std::byte> FindShared(const std::byte* address) {
  const std::lock_guard lock(mutex);
  auto found = opened.upper_bound(address);
  if (found == opened.begin()) return {};
  --found;
  if (address >= found->first + found->second.bytes) return {};
  return {const_cast<std::byte*>(found->first), found->second.bytes};
}

size_t CountShared() {
  const std::lock_guard lock(mutex);
  return opened.size();
}

}  // namespace topk::testing
