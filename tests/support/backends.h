// Every way to compute that this machine has.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/backends/backend.h"

namespace topk::testing {

/// Returns the backends that were built in, and the CPU backend once for each
/// instruction set that the machine can run and once cutting far finer than
/// pays.
std::vector<std::unique_ptr<Backend>> AllBackends(int threads);

/// Returns the last of these.
std::unique_ptr<Backend> EagerBackend(int threads);

/// Returns a backend's name with its instruction set, for messages.
std::string Describe(const Backend& backend);

}  // namespace topk::testing
