// A server that takes the same messages by the generated code and answers with
// as many bytes, computing nothing: what a call costs before anyone computes.
#pragma once

#include <string>
#include <vector>

namespace topk::bench {

/// Serves at these addresses until a signal ends the process; writes the first
/// with its port into the file once it does.
void ServeNull(const std::vector<std::string>& listen,
               const std::string& ready_file);

}  // namespace topk::bench
