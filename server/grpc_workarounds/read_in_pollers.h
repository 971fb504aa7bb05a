// Defect: gRPC's EventEngine reads connections on its own threads and wakes
// another thread for each message. A streamed tensor of 64 MiB takes 25 ms of
// CPU time instead of 21 ms, and 20 times as many futex() calls.
// Versions: measured with 1.83.
// Test: tests/quality/grpc_current.sh --only bench, with and without
// GRPC_EXPERIMENTS=event_engine_listener.
// Delete when both runs take the same time, or gRPC removes the experiment.
#pragma once

#include <cstdlib>

#include "proto/library_versions.h"

namespace topk {

/// Makes the threads that poll for calls also read from connections, unless
/// GRPC_EXPERIMENTS is set. Call before starting any thread or using gRPC.
inline void ReadInPollers() {
#if TOPK_GRPC_AT_LEAST(83)
  setenv("GRPC_EXPERIMENTS", "-event_engine_listener", /*replace=*/0);
#endif
}

}  // namespace topk
