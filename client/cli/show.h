// An answer on stdout or in files, as the flags have it.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "client/cli/exit_code.h"
#include "client/cli/output.h"
#include "topk/v1/topk.pb.h"

namespace topk::cli {

/// How an answer is shown: in a table unless these say otherwise.
struct ShowFlags {
  /// A folder, or a file if it ends with .npz.
  std::string out;
  bool json = false;
  bool csv = false;
  int64_t max_slices = 20;
};

/// The files that --out writes.
inline constexpr char kValuesFile[] = "values.npy";
inline constexpr char kIndicesFile[] = "indices.npy";

/// Adds the flags to a sub-command. Returns those that leave no table.
std::vector<CLI::Option*> AddShowFlags(CLI::App& command, ShowFlags& flags);

/// Shows the answer. REQUIRES: as PrintTable().
ExitCode Show(const v1::TopKResponse& response, int axis, const Labels& labels,
              const ShowFlags& flags);

}  // namespace topk::cli
