// topk merge: merges the files that `topk run --out` wrote for the shards of a
// long axis.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "client/cli/errors.h"
#include "client/cli/output.h"

namespace topk::cli {

/// The flags of `topk merge`.
struct MergeFlags {
  std::vector<std::string> folders;
  /// The k for the whole axis. The shards' files do not contain k.
  int64_t k = 0;
  int64_t axis = -1;
  bool smallest = false;
  std::string order = "value";
  ShowFlags show;
};

/// Adds the flags to `topk merge`. `flags` must outlive `command`.
void AddMergeFlags(CLI::App& command, MergeFlags& flags);

/// Merges the responses in the folders, shows the result, and returns the exit
/// status. Does not call a server.
ExitCode MergeFolders(const MergeFlags& flags);

}  // namespace topk::cli
