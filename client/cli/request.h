// Makes a request from flags.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "topk/status.h"
#include "topk/v1/topk.pb.h"

namespace topk::cli {

/// The operator and its attributes. The members are named like their flags.
struct OperatorFlags {
  int64_t k = 0;
  std::optional<int64_t> axis;
  bool smallest = false;
  std::string dialect = "onnx";
  std::optional<int32_t> version;
  std::string order = "value";
  std::string index_type;
  std::string request_id;
};

/// Adds the flags to a subcommand. `flags` must outlive `command`.
void AddOperatorFlags(CLI::App& command, OperatorFlags& flags);

/// Returns the request for a tensor of this type and shape, without its data.
/// Sets only attributes whose flags were given, so that the operator's own
/// defaults and rules apply. However, the axis defaults to the last axis, and
/// the version to the newest version. Returns INVALID_ARGUMENT for a flag that
/// the dialect does not have. REQUIRES: flags.dialect names a dialect.
Result<v1::TopKRequest> MakeRequest(const OperatorFlags& flags,
                                    v1::DataType data_type,
                                    const std::vector<int64_t>& shape);

}  // namespace topk::cli
