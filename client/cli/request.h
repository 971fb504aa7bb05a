// Makes a request from flags.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "topk/status.h"
#include "topk/v1/topk.pb.h"

namespace topk::cli {

/// The operator and its attributes. The members are named like their flags.
struct OperatorFlags {
  int64_t k = 0;
  int64_t axis = -1;
  bool smallest = false;
  std::string dialect = "onnx";
  std::string order = "value";
  std::string index_type;
  std::string request_id;
};

/// The file with the tensor, and which part of the file to read.
struct InputFlags {
  std::string file;
  /// The name of the array in a .npz archive; see ReadTensor().
  std::string member;
  bool has_header = false;
};

/// Adds --member and --header to a subcommand. `file` is the option for the
/// file. `flags` must outlive `command`.
void AddInputFlags(CLI::App& command, CLI::Option* file, InputFlags& flags);

/// Adds the flags to a subcommand. `flags` must outlive `command`.
void AddOperatorFlags(CLI::App& command, OperatorFlags& flags);

/// Returns the request for a tensor of the type and shape of `tensor`, without
/// its data.
/// Returns INVALID_ARGUMENT for a flag that the dialect does not have.
/// REQUIRES: flags.dialect names a dialect.
Result<v1::TopKRequest> MakeRequest(const OperatorFlags& flags,
                                    const v1::Tensor& tensor);

}  // namespace topk::cli
