// The mix of request kinds in a load test.
#pragma once

#include <cstdint>
#include <istream>
#include <optional>
#include <string>
#include <vector>

#include "client/cli/request.h"
#include "client/numpy/npy.h"
#include "topk/status.h"

namespace topk::cli {

/// A kind of request, from flags or from a line of a mix file.
struct RequestSpec {
  /// The relative frequency of this kind; > 0.
  double weight = 1;
  std::vector<int64_t> shape = {1, 1000};
  std::string dtype = "f32";
  OperatorFlags operation;
  /// The tensor, of this shape and element type. Random if not set.
  std::optional<NpyArray> input;
  /// The source of the shape, for error messages.
  std::string origin = "--shape";

  /// Returns the name for reports, e.g. "8x1000 f32 k 5 axis 0 smallest".
  std::string Name() const;
};

/// Reads a mix with one JSON object per line, e.g.
///   {"weight": 3, "shape": [8, 1000], "dtype": "f32", "k": 5, "axis": -1,
///    "smallest": false}
/// A missing key takes its value from `defaults`. Skips blank lines. Returns
/// INVALID_ARGUMENT with `name`, the line and the key if a line is invalid.
Result<std::vector<RequestSpec>> ParseMix(std::istream& in,
                                          const std::string& name,
                                          const RequestSpec& defaults);

}  // namespace topk::cli
