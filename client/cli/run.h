// topk run: runs TopK on a file.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/cli/exit_code.h"
#include "client/cli/request.h"
#include "client/cli/show.h"
#include "client/numpy/npz.h"
#include "core/base/dtype.h"
#include "topk/client.h"

namespace topk::cli {

/// The flags of `topk run`, except those of AddClientFlags().
struct RunFlags {
  std::string file;
  ReadOptions read;
  OperatorFlags operation;
  /// The strides. Empty = contiguous.
  std::vector<int64_t> strides;
  bool local = false;
  std::string stream = "auto";
  bool shared_memory = false;
  int64_t index_offset = 0;
  /// The trace context to send; "" = none.
  std::string traceparent;
  ShowFlags show;
  ClientOptions client;
};

/// Adds --dtype, for files whose element type has no name in NumPy.
void AddDtypeFlag(CLI::App& command, std::optional<DType>& dtype);

/// Adds the flags to `topk run`. `flags` must outlive `command`.
void AddRunFlags(CLI::App& command, RunFlags& flags);

/// Reads the file and computes the result on the server or locally. Writes the
/// result to stdout or to files. Returns the exit status.
ExitCode Run(const RunFlags& flags);

}  // namespace topk::cli
