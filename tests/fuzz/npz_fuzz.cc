// Reads any bytes as a NumPy .npz archive. A parsed array must have the data
// that its shape implies. Other files are read as .npy files or text.
// The first byte selects the member, and whether 2-byte elements are bf16.
#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "client/numpy/npz.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using topk::testing::Require;
  static topk::testing::MemoryFile file;
  topk::testing::Input input(data, size);
  const uint8_t asked = input.Byte();
  const std::string member = asked % 2 == 1 ? "x" : "";
  const std::optional<topk::DType> as =
      asked >= 128 ? std::optional(topk::DType::kBF16) : std::nullopt;
  const std::string_view content = input.Rest();
  file.Write(content);
  const topk::Result<topk::NpyArray> array =
      topk::ReadArray(file.path(), {member, as});
  if (!array.ok()) {
    Require(array.status().code == topk::Code::kInvalidArgument &&
                !array.status().message.empty(),
            "an error has a message");
    return 0;
  }
  int64_t bytes = topk::InfoOf(array->dtype).bytes;
  for (const int64_t dimension : array->shape) bytes *= dimension;
  Require(array->data.size() == static_cast<size_t>(bytes),
          "as much data as is said");
  if (!content.starts_with("\x93NUMPY")) return 0;
  const topk::Result<topk::NpyArray> plain =
      topk::ParseNpy(std::as_bytes(std::span(content)), nullptr, as);
  Require(plain.ok() && plain->dtype == array->dtype &&
              plain->shape == array->shape &&
              std::ranges::equal(plain->data, array->data),
          "the same as a .npy file");
  return 0;
}
