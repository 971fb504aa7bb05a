// topk run: a file in, the answer out.
#pragma once

#include <cstdint>
#include <string>

#include "client/cli/exit_code.h"
#include "client/cli/request.h"
#include "client/topk_client.h"

namespace topk::cli {

/// What `topk run` is told.
struct RunFlags {
  std::string file;
  OperatorFlags operation;
  bool as_bf16 = false;
  bool local = false;
  std::string stream = "auto";
  bool shared_memory = false;
  std::string out_directory;
  bool json = false;
  int64_t max_slices = 20;
  std::string labels;
  std::string slice_labels;
  ClientOptions client;
};

/// Reads the file, asks the server (or computes here), writes the answer to
/// stdout or to files, and returns the exit status.
ExitCode Run(const RunFlags& flags);

}  // namespace topk::cli
