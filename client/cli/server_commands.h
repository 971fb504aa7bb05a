// The commands `topk health` and `topk info`, which query a server.
#pragma once

#include <string>

#include "client/cli/errors.h"
#include "topk/client.h"

namespace topk::cli {

/// Prints SERVING or NOT_SERVING. Returns kUnavailable for NOT_SERVING.
ExitCode Health(const ClientOptions& client, const std::string& service);

/// Prints the server's capabilities as a table or as JSON.
ExitCode Info(const ClientOptions& client, bool json);

}  // namespace topk::cli
