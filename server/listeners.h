// The sockets on which gRPC waits for connections.
#pragma once

#include <string>
#include <vector>

namespace topk {

/// Has this process listen no more at bound addresses, host:port or unix:path:
/// from now on nobody can connect there; who is connected stays. gRPC 1.51
/// closes its listeners with the whole server alone.
void StopListening(const std::vector<std::string>& addresses);

}  // namespace topk
