// Validators for numeric flags.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>

namespace topk::cli {

/// Accepts a finite number in [min, max]. CLI11's own Range accepts NaN.
CLI::Validator Number(double min, double max);

/// Accepts a whole number; see CheckWhole(). Use with transform().
CLI::Validator Whole(int64_t min = std::numeric_limits<int64_t>::min(),
                     int64_t max = std::numeric_limits<int64_t>::max());

}  // namespace topk::cli
