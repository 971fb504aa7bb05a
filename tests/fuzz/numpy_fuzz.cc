// Reads any bytes as a NumPy .npz archive, a .npy file or text. A parsed tensor
// must have the data that its shape implies, and must not change if it is saved
// and read again. The first byte selects the member.
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "client/numpy/npy.h"
#include "client/numpy/read_tensor.h"
#include "core/base/dtype.h"
#include "tests/fuzz/input.h"

namespace topk::testing {
namespace {

void CheckTensor(const v1::Tensor& tensor) {
  auto bytes =
      static_cast<size_t>(InfoOf(static_cast<DType>(tensor.data_type())).bytes);
  for (const int64_t size : tensor.shape()) bytes *= static_cast<size_t>(size);
  Require(tensor.data().size() == bytes,
          "the data fits the shape and the type");
  // The header of a saved tensor has at most 64 KiB.
  if (tensor.shape_size() > 1000) return;
  const Result<v1::Tensor> again = ParseNpy(NpyHeader(tensor) + tensor.data());
  Require(
      again.ok() && again->SerializeAsString() == tensor.SerializeAsString(),
      "a saved tensor is read as it was");
}

void Check(Input& input) {
  static const int descriptor = memfd_create("fuzz", MFD_CLOEXEC);
  const std::string member = input.Byte() % 2 == 1 ? "x" : "";
  const std::string_view file = input.Rest();
  Require(ftruncate(descriptor, 0) == 0 &&
              pwrite(descriptor, file.data(), file.size(), 0) ==
                  static_cast<ssize_t>(file.size()),
          "the file is written");
  const Result<v1::Tensor> tensor =
      ReadTensor("/proc/self/fd/" + std::to_string(descriptor), member);
  if (tensor.ok()) return CheckTensor(*tensor);
  Require(tensor.status().code == Code::kInvalidArgument &&
              !tensor.status().message.empty(),
          "an error has a message");
}

}  // namespace
}  // namespace topk::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  topk::testing::Input input(data, size);
  topk::testing::Check(input);
  return 0;
}
