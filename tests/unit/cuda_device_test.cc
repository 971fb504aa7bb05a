// The start of CUDA devices, and the simulated CUDA runtime itself.
#include "core/backends/cuda/device/cuda_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "tests/support/cuda/fake_runtime.h"
#include "tests/support/cuda/shared_device.h"

namespace topk::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> WhyNoDevice(const FakeCuda& machine) {
  const ScopedFakeCuda fake(machine);
  std::vector<std::string> errors;
  EXPECT_THAT(cuda::OpenDevices({}, errors), IsEmpty());
  return errors;
}

TEST(CudaDevices, SayWhyThereIsNone) {
  EXPECT_THAT(WhyNoDevice({.devices = 0}),
              ElementsAre(HasSubstr("this machine has no CUDA device")));
  EXPECT_THAT(WhyNoDevice({.driver = 0}),
              ElementsAre(HasSubstr("this machine has no NVIDIA driver")));
  EXPECT_THAT(WhyNoDevice({.driver = 12040}),
              ElementsAre("the NVIDIA driver is too old: it supports CUDA "
                          "12.4, and this program needs 13.0, which drivers of "
                          "version 580 and later support"));
}

// An error that is permanent but not sticky, e.g. because the program has no
// code for the device, must not cost each request an upload.
TEST(CudaDevices, AreNotUsedIfTheyCannotRunAKernel) {
  EXPECT_THAT(WhyNoDevice({.calls_until_error = 0,
                           .error = cudaErrorNoKernelImageForDevice,
                           .sticky = false,
                           .function = "launch",
                           .always = true}),
              ElementsAre(HasSubstr("cudaErrorNoKernelImageForDevice")));
}

TEST(CudaDevices, AreUsedWithoutThoseThatFailToStart) {
  for (int64_t calls = 0;; ++calls) {
    ScopedFakeCuda fake(
        {.devices = 2, .calls_until_error = calls, .device = 0});
    std::vector<std::string> errors;
    const auto devices = cuda::OpenDevices({}, errors);
    if (fake.calls() <= calls) {
      EXPECT_GT(calls, 20);
      EXPECT_THAT(devices, ::testing::SizeIs(2));
      EXPECT_THAT(errors, IsEmpty());
      break;
    }
    ASSERT_EQ(devices.size() + errors.size(), 2U) << calls;
  }
}

TEST(FakeCuda, SharesMemoryBetweenProcesses) {
  const ScopedFakeCuda fake;
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  SharedAllocation own(100, getpid());
  own.bytes()[99] = std::byte{1};
  cudaIpcMemHandle_t handle{};
  std::memcpy(handle.reserved, own.handle().data(), sizeof(handle.reserved));
  void* opened = nullptr;
  EXPECT_NE(cudaIpcOpenMemHandle(&opened, handle, 0), cudaSuccess)
      << "in the same process";
  const pid_t child = fork();
  if (child == 0) {
    bool right = cudaIpcOpenMemHandle(&opened, handle, 0) == cudaSuccess;
    auto* const theirs = static_cast<std::byte*>(opened);
    right = right && theirs != own.bytes().data() && theirs[99] == std::byte{1};
    if (right) theirs[99] = std::byte{2};
    right = right && cudaIpcCloseMemHandle(opened) == cudaSuccess;
    _exit(right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(own.bytes()[99], std::byte{2});
}

TEST(FakeCuda, CopiesOnlyPinnedMemory) {
  const ScopedFakeCuda fake({.devices = 2});
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
            cudaSuccess);
  int data = 0;
  const auto copy = [&](const void* from) {
    return cudaMemcpyAsync(&data, from, 4, cudaMemcpyHostToDevice, stream);
  };
  const int host = 5;
  EXPECT_DEATH(copy(&host), "not pinned");
  void* pinned = nullptr;
  ASSERT_EQ(cudaHostAlloc(&pinned, 4, cudaHostAllocDefault), cudaSuccess);
  std::memcpy(pinned, &host, 4);
  EXPECT_EQ(copy(pinned), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);  // waits for the copy
  EXPECT_EQ(data, 5);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_DEATH(cudaStreamDestroy(stream), "another device");
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

}  // namespace
}  // namespace topk::testing
