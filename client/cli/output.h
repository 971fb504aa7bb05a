// Shows a response on stdout, or writes it to files.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "client/cli/errors.h"
#include "topk/v1/topk.pb.h"

namespace topk::cli {

/// How a response is shown; by default, as a table.
struct ShowFlags {
  /// The folder to write to; "" = none.
  std::string out;
  bool json = false;
  int64_t max_slices = 20;
};

/// The files that --out writes.
inline constexpr char kValuesFile[] = "values.npy";
inline constexpr char kIndicesFile[] = "indices.npy";
inline constexpr char kSizeFile[] = "size.npy";

/// Adds the flags to a subcommand. `flags` must outlive `command`.
void AddShowFlags(CLI::App& command, ShowFlags& flags);

/// Shows the response. REQUIRES: CheckResponse() accepts the response, its
/// types are among those of ParseNpy(), and `axis` is the request's axis, >= 0.
/// `size` is the length of the input along the axis.
ExitCode Show(const v1::TopKResponse& response, int axis, int64_t size,
              const ShowFlags& flags);

/// Returns the shortest text that represents element `i` of a contiguous tensor
/// exactly, e.g. 0.1, -3, nan or inf. REQUIRES: the type is among those of
/// ParseNpy().
std::string ElementText(const v1::Tensor& tensor, int64_t i);

}  // namespace topk::cli
