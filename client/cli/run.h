// topk run: runs TopK on a file.
#pragma once

#include "client/cli/exit_code.h"
#include "client/cli/run_flags.h"

namespace topk::cli {

/// Reads the file, computes the result on the server or locally, and returns
/// the exit status. Writes the result to stdout or to files, or compares it
/// with a result computed locally.
ExitCode Run(const RunFlags& flags);

}  // namespace topk::cli
