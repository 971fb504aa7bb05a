// Reads any bytes as a NumPy .npz archive, a .npy file or text. A parsed array
// must have the data that its shape implies, for a .npy file in the order given
// by the header. The first byte selects the member, and whether 2-byte elements
// are bf16.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/numpy/npy_header.h"
#include "client/numpy/npz.h"
#include "tests/fuzz/input.h"

namespace topk::testing {
namespace {

// Requires that a rejected file has an error message. Returns whether the file
// was accepted; its array must then have the data that the shape implies.
bool IsAccepted(const Result<NpyArray>& array) {
  if (!array.ok()) {
    Require(array.status().code == Code::kInvalidArgument &&
                !array.status().message.empty(),
            "an error has a message");
    return false;
  }
  auto bytes = static_cast<size_t>(InfoOf(array->dtype).bytes);
  for (const int64_t size : array->shape) bytes *= static_cast<size_t>(size);
  Require(array->data.size() == bytes, "as much data as is said");
  return true;
}

// Checks that the array's elements are those of the .npy file, read one by one.
void CheckElements(const NpyArray& array, std::span<const std::byte> file) {
  const Result<NpyHeader> header = ParseNpyHeader(file);
  Require(header.ok() && header->shape == array.shape,
          "the header has the array's shape");
  const auto data = file.subspan(header->data_offset);
  const auto width = static_cast<size_t>(InfoOf(array.dtype).bytes);
  const size_t count = array.data.size() / width;
  for (size_t to = 0; to < count; ++to) {
    size_t from = to;
    if (header->fortran_order) {  // the first dimension varies fastest
      from = 0;
      size_t left = to;
      size_t block = count;
      for (size_t d = array.shape.size(); d-- > 0;) {
        const auto size = static_cast<size_t>(array.shape[d]);
        block /= size;
        from += left % size * block;
        left /= size;
      }
    }
    for (size_t b = 0; b < width; ++b) {
      const size_t other = header->big_endian ? width - 1 - b : b;
      Require(array.data[to * width + b] == data[from * width + other],
              "an element is where the header has it");
    }
  }
}

void Check(Input& input) {
  static const int descriptor = memfd_create("fuzz", MFD_CLOEXEC);
  const uint8_t asked = input.Byte();
  const std::string member = asked % 2 == 1 ? "x" : "";
  const std::optional<DType> as =
      asked >= 128 ? std::optional(DType::kBF16) : std::nullopt;
  // A copy of the exact length, to detect reads past the end.
  const std::string_view rest = input.Rest();
  const std::vector<char> copy(rest.begin(), rest.end());
  Require(ftruncate(descriptor, 0) == 0 &&
              pwrite(descriptor, copy.data(), copy.size(), 0) ==
                  static_cast<ssize_t>(copy.size()),
          "the file is written");
  const Result<NpyArray> array =
      ReadArray("/proc/self/fd/" + std::to_string(descriptor), {member, as});
  const bool is_array = IsAccepted(array);
  const auto file = std::as_bytes(std::span(copy));
  const Result<NpyArray> plain = ParseNpy(file, nullptr, as);
  if (IsAccepted(plain)) CheckElements(*plain, file);
  if (is_array && rest.starts_with("\x93NUMPY")) {
    Require(plain.ok() && plain->dtype == array->dtype &&
                plain->shape == array->shape &&
                std::ranges::equal(plain->data, array->data),
            "the same as a .npy file");
  }
}

}  // namespace
}  // namespace topk::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  topk::testing::Input input(data, size);
  topk::testing::Check(input);
  return 0;
}
