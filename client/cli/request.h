// From flags to a request.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "core/dialects/dialect.h"
#include "topk/v1/topk.pb.h"

namespace topk::cli {

/// Adds the flags to a sub-command.
void AddOperatorFlags(CLI::App& command, OperatorFlags& flags);

/// Returns the request for a tensor of this type and shape, without its data.
/// Only flags that were given are sent, so that the operator's own defaults and
/// rules apply; the last axis and the newest version are this command's.
/// INVALID_ARGUMENT for a flag that the dialect has no word for.
/// REQUIRES: flags.dialect names a dialect.
Result<v1::TopKRequest> MakeRequest(const OperatorFlags& flags,
                                    v1::DataType data_type,
                                    const std::vector<int64_t>& shape);

}  // namespace topk::cli
