// Flags that are numbers.
#pragma once

#include <CLI/CLI.hpp>

namespace topk::cli {

/// A finite number in [min, max]. CLI11's own Range lets NaN through.
CLI::Validator Number(double min, double max);

}  // namespace topk::cli
