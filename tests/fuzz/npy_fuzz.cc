// Parses any bytes as a NumPy .npy file. A parsed array must have the data that
// its shape implies, in the order given by the header. The first byte selects
// whether 2-byte elements are bf16.
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/numpy/npy.h"
#include "client/numpy/npy_header.h"
#include "tests/fuzz/input.h"

namespace topk::testing {
namespace {

// Checks that the array's elements are those of the file, read one by one.
void CheckElements(const NpyArray& array, std::span<const std::byte> file) {
  const Result<NpyHeader> header = ParseNpyHeader(file);
  Require(header.ok() && header->shape == array.shape,
          "the header has the array's shape");
  const auto data = file.subspan(header->data_offset);
  const auto width = static_cast<size_t>(InfoOf(array.dtype).bytes);
  size_t count = 1;
  for (const int64_t size : array.shape) count *= static_cast<size_t>(size);
  Require(array.data.size() == count * width, "as much data as is said");
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

}  // namespace
}  // namespace topk::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using topk::testing::Require;
  topk::testing::Input input(data, size);
  const std::optional<topk::DType> as =
      input.Flag() ? std::optional(topk::DType::kBF16) : std::nullopt;
  // A copy of the exact length, to detect reads past the end.
  const std::string_view rest = input.Rest();
  const std::vector<char> copy(rest.begin(), rest.end());
  const auto file = std::as_bytes(std::span(copy));
  const topk::Result<topk::NpyArray> array = topk::ParseNpy(file, nullptr, as);
  if (!array.ok()) {
    Require(array.status().code == topk::Code::kInvalidArgument &&
                !array.status().message.empty(),
            "an error has a message");
    return 0;
  }
  topk::testing::CheckElements(*array, file);
  return 0;
}
