// topk run: a file in, the answer out.
#pragma once

#include "client/cli/exit_code.h"
#include "client/cli/run_flags.h"

namespace topk::cli {

/// Reads the file, asks the server (or computes here), writes the answer to
/// stdout or to files, or compares it with one computed here, and returns the
/// exit status.
ExitCode Run(const RunFlags& flags);

}  // namespace topk::cli
