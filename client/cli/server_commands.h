// topk health and topk info: questions about a server.
#pragma once

#include <string>

#include "client/cli/exit_code.h"
#include "topk/client.h"

namespace topk::cli {

/// Prints SERVING or NOT_SERVING; the latter is kUnavailable.
ExitCode Health(const ClientOptions& client, const std::string& service);

/// Prints what the server serves, as a table or as JSON.
ExitCode Info(const ClientOptions& client, bool json);

}  // namespace topk::cli
