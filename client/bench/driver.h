// Makes the calls of a load test.
#pragma once

#include <grpcpp/channel.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/bench/load.h"
#include "client/bench/request_template.h"
#include "client/credentials.h"
#include "topk/client.h"

namespace topk::cli {

/// How to make calls.
struct CallSettings {
  const BenchPath& path;
  const ClientOptions& client;
  TokenFile token;
};

using Channels = std::vector<std::shared_ptr<grpc::ChannelInterface>>;

/// Makes a single call, without verifying the response.
Outcome CallOnce(CallSettings& settings, const RequestTemplate& request,
                 const std::shared_ptr<grpc::ChannelInterface>& channel);

/// Makes the calls of `load` until it is over. `open` tells whether the load
/// has a rate. One thread for every 8 callers receives the responses, but at
/// most one for every 2 CPUs. Runs `tick` about ten times per second on the
/// calling thread. Returns how long the load took.
Load::Time Drive(CallSettings& settings, const RequestTemplate& request,
                 const Channels& channels, int callers, bool open, Load& load,
                 const std::function<void(Load::Time now)>& tick);

}  // namespace topk::cli
