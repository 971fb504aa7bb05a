// Defect: gRPC's EventEngine reads connections in its own threads, and wakes
// another thread for each message. A streamed tensor of 64 MiB takes 25 ms of
// CPU time instead of 21, and 20 times as many futex() calls.
// Versions: measured with 1.83. Test: tests/quality/grpc_current.sh --only
// bench, with and without GRPC_EXPERIMENTS=event_engine_listener. Delete when
// that makes no difference, or when gRPC no longer has this experiment.
#pragma once

namespace topk {

/// Lets the threads that poll for calls also read the server's connections,
/// unless GRPC_EXPERIMENTS is set. Call it before there are threads, and before
/// gRPC is used.
void ReadInPollers();

}  // namespace topk
