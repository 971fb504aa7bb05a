// Makes a request from flags.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

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

/// Adds the flags to a subcommand. `flags` must outlive `command`.
void AddOperatorFlags(CLI::App& command, OperatorFlags& flags);

/// Returns the request for a tensor of this type and shape, without its data.
/// Returns INVALID_ARGUMENT for a flag that the dialect does not have.
/// REQUIRES: flags.dialect names a dialect.
Result<v1::TopKRequest> MakeRequest(const OperatorFlags& flags,
                                    v1::DataType data_type,
                                    const std::vector<int64_t>& shape);

}  // namespace topk::cli
