#include "server/transport/connection_options.h"

#include <grpc/impl/codegen/compression_types.h>
#include <grpc/impl/codegen/grpc_types.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstddef>

#include "core/common/process_limits.h"

namespace topk {
namespace {

// Rounds up, because zero milliseconds may have a special meaning in gRPC.
int Milliseconds(double seconds) {
  return static_cast<int>(std::ceil(seconds * 1000));
}

// INT_MAX means "never" in gRPC.
int MillisecondsOrNever(double seconds) {
  return seconds == 0 ? INT_MAX : Milliseconds(seconds);
}

}  // namespace

void ApplyConnectionOptions(const ConnectionOptions& options,
                            grpc::ServerBuilder& builder) {
  const auto set = [&builder](const char* argument, int value) {
    builder.AddChannelArgument(argument, value);
  };
  const int timeout = Milliseconds(options.keepalive_timeout);
  set(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(options.keepalive_time));
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, timeout);
  // Newer gRPC versions use this setting (default: 1 minute) instead of the
  // keepalive timeout.
  set("grpc.http2.ping_timeout_ms", timeout);
  set(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  set(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
      Milliseconds(options.min_ping_interval));
  set(GRPC_ARG_MAX_CONNECTION_IDLE_MS,
      MillisecondsOrNever(options.max_connection_idle));
  set(GRPC_ARG_MAX_CONNECTION_AGE_MS,
      MillisecondsOrNever(options.max_connection_age));
  set(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS,
      Milliseconds(options.max_connection_age_grace));
  set(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.max_concurrent_streams);
  set(GRPC_ARG_MAX_METADATA_SIZE, options.max_metadata_bytes);
  // In newer gRPC versions, the limit above is soft: some calls with larger
  // metadata pass. This hard limit (default 16 KiB) rejects all such calls.
  set("grpc.absolute_max_metadata_size", options.max_metadata_bytes);
  set(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
      Milliseconds(options.handshake_timeout));
  set(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
}

ConnectionOptions SideConnectionOptions() {
  ConnectionOptions options;
  options.keepalive_time = 20;
  options.keepalive_timeout = 10;
  options.max_connection_idle = 30;
  options.max_connection_age = 600;
  options.max_connection_age_grace = 10;
  options.max_replaced =
      static_cast<int>(std::clamp<rlim_t>(DescriptorLimit() / 16, 1, 64));
  options.max_concurrent_streams = 16;
  options.handshake_timeout = 5;
  return options;
}

void ApplySideConnectionOptions(grpc::ServerBuilder& builder) {
  ApplyConnectionOptions(SideConnectionOptions(), builder);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  grpc::ResourceQuota quota;
  quota.Resize(size_t{32} << 20);
  // Limit the threads, because each call of gRPC's built-in services occupies a
  // thread until the client has received the response.
  quota.SetMaxThreads(8);
  builder.SetResourceQuota(quota);
}

}  // namespace topk
