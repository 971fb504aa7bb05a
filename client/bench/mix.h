// The kinds of requests that a load is mixed from.
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

#include "client/cli/request.h"
#include "core/base/status.h"

namespace topk::cli {

/// A kind of request, as flags or a line of a mix describe it.
struct RequestSpec {
  /// The relative frequency of this kind; > 0.
  double weight = 1;
  std::vector<int64_t> shape = {1, 1000};
  std::string dtype = "f32";
  OperatorFlags operation;
  /// Where errors say that the shape came from.
  std::string origin = "--shape";

  /// Returns what a report calls it, e.g. "8x1000 f32 k 5 axis 0 smallest".
  std::string Name() const;
};

/// Reads a mix: a JSON object a line, e.g.
///   {"weight": 3, "shape": [8, 1000], "dtype": "f32", "k": 5, "axis": -1,
///    "smallest": false}
/// Missing keys take the value of `defaults`; blank lines are passed over.
/// INVALID_ARGUMENT, naming `name`, the line and the key, for anything else.
Result<std::vector<RequestSpec>> ParseMix(std::istream& in,
                                          const std::string& name,
                                          const RequestSpec& defaults);

/// Reads a mix from a file. NOT_FOUND if it cannot be read.
Result<std::vector<RequestSpec>> ReadMix(const std::string& path,
                                         const RequestSpec& defaults);

}  // namespace topk::cli
