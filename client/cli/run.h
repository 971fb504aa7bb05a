// topk run: runs TopK on a file.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "client/cli/errors.h"
#include "client/cli/output.h"
#include "client/cli/request.h"
#include "topk/client.h"

namespace topk::cli {

/// The flags of `topk run`, except those of AddClientFlags().
struct RunFlags {
  std::string file;
  /// The name of the array in a .npz archive; see ReadArray().
  std::string member;
  bool has_header = false;
  OperatorFlags operation;
  bool local = false;
  bool shared_memory = false;
  int64_t index_offset = 0;
  ShowFlags show;
  ClientOptions client;
};

/// Adds the flags to `topk run`. `flags` must outlive `command`.
void AddRunFlags(CLI::App& command, RunFlags& flags);

/// Reads the file and computes the result on the server or locally. Writes the
/// result to stdout or to files. Returns the exit status.
ExitCode Run(const RunFlags& flags);

}  // namespace topk::cli
