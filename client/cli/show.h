// An answer on stdout or in files, as the flags have it.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "client/cli/exit_code.h"
#include "client/cli/output.h"
#include "topk/v1/topk.pb.h"

namespace topk::cli {

/// How an answer is shown: in a table unless these say otherwise.
struct ShowFlags {
  std::string out_directory;
  bool json = false;
  int64_t max_slices = 20;
};

/// The files that --out writes.
inline constexpr char kValuesFile[] = "values.npy";
inline constexpr char kIndicesFile[] = "indices.npy";

/// The flags that leave no table.
struct NoTableFlags {
  CLI::Option* out;
  CLI::Option* json;
};

/// Adds the flags to a sub-command.
NoTableFlags AddShowFlags(CLI::App& command, ShowFlags& flags);

/// Shows the answer. REQUIRES: as PrintTable().
ExitCode Show(const v1::TopKResponse& response, int axis, const Labels& labels,
              const ShowFlags& flags);

}  // namespace topk::cli
