// topk bench: puts load on a server and verifies its responses.
#pragma once

#include "client/bench/flags.h"
#include "client/cli/exit_code.h"

namespace topk::cli {

/// Sends random tensors repeatedly from several threads, at a fixed rate or in
/// a closed loop, and prints the rate and latencies. Returns kWrongAnswer if
/// the bytes of a response differ from those computed in this process. SIGINT
/// or SIGTERM ends the load once the calls in flight have finished. The report
/// is then partial, and the exit status is kInterrupted.
ExitCode Bench(const BenchFlags& flags);

}  // namespace topk::cli
