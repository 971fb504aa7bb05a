#include "server/grpc_workarounds/read_in_pollers.h"

#include <cstdlib>

#include "proto/library_versions.h"

namespace topk {

void ReadInPollers() {
#if TOPK_GRPC_AT_LEAST(83)
  setenv("GRPC_EXPERIMENTS", "-event_engine_listener", /*replace=*/0);
#endif
}

}  // namespace topk
