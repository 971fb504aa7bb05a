// topk bench: load on a server, with its answers checked.
#pragma once

#include "client/bench/flags.h"
#include "client/cli/exit_code.h"

namespace topk::cli {

/// Sends random tensors again and again from several threads, at a rate or as
/// fast as the answers come, and prints rate and latencies. kWrongAnswer if an
/// answer's bytes differ from those computed in this process. SIGINT or SIGTERM
/// ends the load, after the calls that are under way; the report is of what was
/// done until then, and the exit status kInterrupted.
ExitCode Bench(const BenchFlags& flags);

}  // namespace topk::cli
