// The memory of a simulated CUDA device that processes share. An allocation is a
// POSIX shared memory object, and its IPC handle is the object's name.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>

namespace topk::testing {

inline constexpr size_t kIpcHandleBytes = 64;
/// The UUID of the device, including the NUL.
inline constexpr char kSharedDeviceUuid[16] = "shared memory d";

/// Returns the name of an allocation. `number` must be unique in the process.
inline std::string SharedName(int process, int number) {
  return "/topk-cuda-" + std::to_string(process) + "-" + std::to_string(number);
}

/// Returns the name in an IPC handle of kIpcHandleBytes bytes, or "" if the
/// handle is not valid.
inline std::string NameInHandle(const char* handle) {
  const std::string name(handle, strnlen(handle, kIpcHandleBytes));
  return name.rfind("/topk-cuda-", 0) == 0 ? name : "";
}

/// Returns whether a process has allocated the memory with this name.
inline bool IsOfProcess(const std::string& name, int process) {
  int owner = 0;
  return std::sscanf(name.c_str(), "/topk-cuda-%d-", &owner) == 1 &&
         owner == process;
}

/// Creates and maps memory. Returns null if that fails.
inline void* CreateShared(const std::string& name, size_t bytes) {
  const int file = shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
  if (file < 0) return nullptr;
  void* data = MAP_FAILED;
  if (posix_fallocate(file, 0, static_cast<off_t>(bytes)) == 0) {
    data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  close(file);
  return data == MAP_FAILED ? nullptr : data;
}

/// Maps the memory of another process. Returns null if that fails.
inline void* OpenShared(const std::string& name, size_t& bytes) {
  const int file = shm_open(name.c_str(), O_RDWR, 0);
  if (file < 0) return nullptr;
  struct stat info {};
  void* data = MAP_FAILED;
  if (fstat(file, &info) == 0 && info.st_size > 0) {
    bytes = static_cast<size_t>(info.st_size);
    data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  close(file);
  return data == MAP_FAILED ? nullptr : data;
}

}  // namespace topk::testing
