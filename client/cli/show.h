// Shows a response on stdout, or writes it to files.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "client/cli/exit_code.h"
#include "client/cli/output.h"
#include "topk/v1/topk.pb.h"

namespace topk::cli {

/// How a response is shown; by default, as a table.
struct ShowFlags {
  /// A folder, or a .npz file if the name ends with .npz.
  std::string out;
  bool json = false;
  int64_t max_slices = 20;
};

/// The files that --out writes.
inline constexpr char kValuesFile[] = "values.npy";
inline constexpr char kIndicesFile[] = "indices.npy";

/// Adds the flags to a subcommand. `flags` must outlive `command`.
void AddShowFlags(CLI::App& command, ShowFlags& flags);

/// Shows the response. REQUIRES: as for PrintTable().
ExitCode Show(const v1::TopKResponse& response, int axis,
              const ShowFlags& flags);

}  // namespace topk::cli
