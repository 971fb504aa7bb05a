// Latencies on a terminal.
#pragma once

#include <ostream>
#include <string>

#include "client/bench/histogram.h"

namespace topk::cli {

/// Returns a time in nanoseconds in three digits, e.g. "1.25ms".
std::string TimeText(double nanoseconds);

/// Prints a bar for each of at most 20 ranges of nanoseconds, each beginning a
/// fixed factor above the last, `columns` wide. Nothing for an empty histogram.
void PrintPlot(const Histogram& latency, int columns, std::ostream& out);

}  // namespace topk::cli
