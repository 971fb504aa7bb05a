// Reads any bytes as a NumPy .npz archive, a .npy file or text. A parsed array
// must have the data that its shape implies, and must not change if it is saved
// and read again. The first byte selects the member.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>

#include "client/numpy/read_array.h"
#include "tests/fuzz/input.h"

namespace topk::testing {
namespace {

void CheckArray(const NpyArray& array) {
  auto bytes = static_cast<size_t>(InfoOf(array.dtype).bytes);
  for (const int64_t size : array.shape) bytes *= static_cast<size_t>(size);
  Require(array.data.size() == bytes, "the data fits the shape and the type");
  const std::string_view data(reinterpret_cast<const char*>(array.data.data()),
                              bytes);
  // The header of a saved array has at most 64 KiB.
  if (array.shape.size() > 1000) return;
  const Result<NpyArray> again = ParseNpy(
      std::make_shared<std::string>(NpyBytes(array.dtype, array.shape, data)));
  Require(again.ok() && again->dtype == array.dtype &&
              again->shape == array.shape &&
              std::ranges::equal(again->data, array.data),
          "a saved array is read as it was");
}

void Check(Input& input) {
  static const int descriptor = memfd_create("fuzz", MFD_CLOEXEC);
  const std::string member = input.Byte() % 2 == 1 ? "x" : "";
  const std::string_view file = input.Rest();
  Require(ftruncate(descriptor, 0) == 0 &&
              pwrite(descriptor, file.data(), file.size(), 0) ==
                  static_cast<ssize_t>(file.size()),
          "the file is written");
  const Result<NpyArray> array =
      ReadArray("/proc/self/fd/" + std::to_string(descriptor), member);
  if (array.ok()) return CheckArray(*array);
  Require(array.status().code == Code::kInvalidArgument &&
              !array.status().message.empty(),
          "an error has a message");
}

}  // namespace
}  // namespace topk::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  topk::testing::Input input(data, size);
  topk::testing::Check(input);
  return 0;
}
