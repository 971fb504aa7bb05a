// Makes the calls of a load test.
#pragma once

#include <deque>
#include <functional>

#include "client/bench/load.h"
#include "client/bench/request_template.h"
#include "client/channel.h"

namespace topk::cli {

using Connections = std::deque<Connection>;

/// Makes a single call, without verifying the response.
Outcome CallOnce(Connection& connection, const BenchPath& path,
                 const RequestTemplate& request);

/// Makes the calls of `load` until it is over. `open` tells whether the load
/// has a rate. One thread for every 8 callers receives the responses, but at
/// most one for every 2 CPUs. Runs `tick` about ten times per second on the
/// calling thread. Returns how long the load took.
Load::Time Drive(Connections& connections, const BenchPath& path,
                 const RequestTemplate& request, int callers, bool open,
                 Load& load, const std::function<void(Load::Time now)>& tick);

}  // namespace topk::cli
