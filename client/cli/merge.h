// topk merge: merges the files that `topk run --out` wrote for the shards of a
// long axis.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/cli/exit_code.h"
#include "client/cli/show.h"
#include "core/base/dtype.h"
#include "topk/status.h"
#include "topk/v1/tensor.pb.h"

namespace topk::cli {

/// The flags of `topk merge`.
struct MergeFlags {
  std::vector<std::string> folders;
  /// The k for the whole axis. The shards' files do not contain k.
  int64_t k = 0;
  int64_t axis = -1;
  bool smallest = false;
  std::string order = "value";
  /// The index offset of each folder's shard. May be empty.
  std::vector<int64_t> index_offsets;
  /// The element type of the values, if NumPy has no name for it.
  std::optional<DType> dtype;
  ShowFlags show;
};

/// Reads a .npy file into a tensor.
Status ReadTensor(const std::string& path, std::optional<DType> as,
                  v1::Tensor& tensor);

/// Adds the flags to `topk merge`. `flags` must outlive `command`.
void AddMergeFlags(CLI::App& command, MergeFlags& flags);

/// Merges the responses in the folders, shows the result, and returns the exit
/// status. Does not call a server.
ExitCode MergeFolders(const MergeFlags& flags);

}  // namespace topk::cli
