// topk merge: what `topk run --out` wrote of the shards of a longer axis, into
// the answer over all of it.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/cli/exit_code.h"
#include "client/cli/show.h"
#include "core/base/dtype.h"
#include "core/base/status.h"
#include "topk/v1/tensor.pb.h"

namespace topk::cli {

/// The flags of `topk merge`.
struct MergeFlags {
  std::vector<std::string> folders;
  /// Of the whole axis; the files do not say.
  int64_t k = 0;
  int64_t axis = -1;
  bool smallest = false;
  std::string order = "value";
  /// One for each folder, or none.
  std::vector<int64_t> index_offsets;
  /// Of values whose type .npy has no name for.
  std::optional<DType> dtype;
  ShowFlags show;
};

/// Reads a .npy file into a tensor.
Status ReadTensor(const std::string& path, std::optional<DType> as,
                  v1::Tensor& tensor);

/// Adds the flags to the sub-command.
void AddMergeFlags(CLI::App& command, MergeFlags& flags);

/// Reads the folders, merges their answers, shows what comes of it, and returns
/// the exit status. No server is asked.
ExitCode MergeFolders(const MergeFlags& flags);

}  // namespace topk::cli
