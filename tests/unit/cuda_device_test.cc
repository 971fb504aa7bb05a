// The start of CUDA devices, and the simulated CUDA runtime itself.
#include "core/backends/cuda/device/cuda_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "tests/support/cuda/fake_runtime.h"

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
  void* data = nullptr;
  ASSERT_EQ(cudaMalloc(&data, 100), cudaSuccess);
  auto* const bytes = static_cast<char*>(data);
  std::memset(bytes, 1, 100);
  cudaIpcMemHandle_t handle{};
  ASSERT_EQ(cudaIpcGetMemHandle(&handle, data), cudaSuccess);
  void* opened = nullptr;
  EXPECT_NE(cudaIpcOpenMemHandle(&opened, handle, 0), cudaSuccess)
      << "in the same process";
  const pid_t child = fork();
  if (child == 0) {
    bool right = cudaIpcOpenMemHandle(&opened, handle, 0) == cudaSuccess;
    auto* const theirs = static_cast<char*>(opened);
    right = right && theirs != bytes && theirs[99] == 1;
    if (right) theirs[99] = 2;
    right = right && cudaIpcCloseMemHandle(opened) == cudaSuccess;
    _exit(right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(bytes[99], 2);
  EXPECT_EQ(cudaFree(data), cudaSuccess);
}

TEST(FakeCuda, CopiesOnlyPinnedMemory) {
  const ScopedFakeCuda fake({.devices = 2});
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  void* data = nullptr;
  ASSERT_EQ(cudaMalloc(&data, 4), cudaSuccess);
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
            cudaSuccess);
  int host = 5;
  const auto copy = [&] {
    return cudaMemcpyAsync(data, &host, 4, cudaMemcpyHostToDevice, stream);
  };
  EXPECT_DEATH(copy(), "not pinned");
  ASSERT_EQ(cudaHostRegister(&host, 4, cudaHostRegisterDefault), cudaSuccess);
  EXPECT_EQ(copy(), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(*static_cast<int*>(data), 5);
  ASSERT_EQ(cudaHostUnregister(&host), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_DEATH(cudaStreamDestroy(stream), "another device");
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(cudaFree(data), cudaSuccess);
}

}  // namespace
}  // namespace topk::testing
