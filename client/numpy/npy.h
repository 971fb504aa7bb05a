// NumPy's .npy format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/dtype.h"
#include "topk/status.h"

namespace topk {

/// An array read from a file.
struct NpyArray {
  DType dtype;
  std::vector<int64_t> shape;
  /// The elements, little-endian and row-major.
  std::span<const std::byte> data;
  /// Owns the memory of `data`.
  std::shared_ptr<const void> owner;
};

/// Parses the content of a .npy file. Accepts the header that numpy.save writes
/// for a little-endian row-major array of numbers. V2 is bf16, because that is
/// how NumPy saves the bfloat16 of ml_dtypes. Returns INVALID_ARGUMENT for
/// other arrays.
Result<NpyArray> ParseNpy(std::shared_ptr<const std::string> file);

/// Returns the content of a .npy file for an array, with bf16 as V2. REQUIRES:
/// `dtype` is one of the types that ParseNpy() returns.
std::string NpyBytes(DType dtype, std::span<const int64_t> shape,
                     std::string_view data);

}  // namespace topk
