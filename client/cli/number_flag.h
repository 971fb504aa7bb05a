// Flags that are numbers.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>

namespace topk::cli {

/// A finite number in [min, max]. CLI11's own Range lets NaN through.
CLI::Validator Number(double min, double max);

/// A whole number, as CheckWhole() reads it; use as transform().
CLI::Validator Whole(int64_t min = std::numeric_limits<int64_t>::min(),
                     int64_t max = std::numeric_limits<int64_t>::max());

}  // namespace topk::cli
