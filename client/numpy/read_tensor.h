// Reads tensors from files.
#pragma once

#include <string>

#include "topk/status.h"
#include "topk/v1/tensor.pb.h"

namespace topk {

/// Reads an array from a .npy file, a .npz archive or text (see ParseText()),
/// depending on the file's first bytes. "-" is standard input. `member` is the
/// name of the array in a .npz archive, or "" if there is only one. If
/// `has_header`, skips the first line of text. Returns NOT_FOUND if the file
/// cannot be read. Returns INVALID_ARGUMENT if the file is malformed, and with
/// a list of the members if there is no such member.
Result<v1::Tensor> ReadTensor(const std::string& path,
                              const std::string& member = "",
                              bool has_header = false);

}  // namespace topk
