// NumPy's .npy format.
#pragma once

#include <string>

#include "topk/status.h"
#include "topk/v1/tensor.pb.h"

namespace topk {

/// Parses the content of a .npy file. Accepts the header that numpy.save writes
/// for a little-endian row-major array of numbers. V2 is bf16, because that is
/// how NumPy saves the bfloat16 of ml_dtypes. Returns INVALID_ARGUMENT for
/// other arrays.
Result<v1::Tensor> ParseNpy(std::string file);

/// Returns what precedes the data in a .npy file, with bf16 as V2. REQUIRES:
/// The type is one of those that ParseNpy() returns.
std::string NpyHeader(const v1::Tensor& tensor);

}  // namespace topk
