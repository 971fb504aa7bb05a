// Cases as data: tests/conformance/cases/*.cases, a case a line.
//
//   name | dialect version | type shape | rest of the request | data | expected
//
// name      UPPER or lower snake or Camel case; unique in its file.
// dialect   its name or number, with a version: "onnx 11".
// type      as in "f32 [3, 4]"; the type may also be a number.
// rest      TopKRequest in protobuf text format, without spec and tensor type
//           and shape: `onnx { axis: 1 k { value: 3 } }`. It may add to the
//           tensor: `tensor { strides: [4, 1] }`.
// data      elements in row-major order: numbers, nan, -nan, inf, -inf, -0,
//           0x bits, ranges a..b; `zeros`; `random SEED`; `bytes N`: N zeros,
//           whatever the shape.
// expected  `values ; indices` as such elements; or `oracle`: what the oracle
//           says; or `CODE field REASON`, e.g. `INVALID_ARGUMENT onnx.k
//           K_EXCEEDS_DIMENSION`.
//
// Blank lines and lines that begin with # are not cases; anything else that
// cannot be read is an error.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "topk/v1/topk.pb.h"

namespace topk::testing {

/// One line.
struct Case {
  std::string name;
  /// File and line, for messages.
  std::string where;
  v1::TopKRequest request;
  /// The expected data; unset for `oracle` and for errors.
  std::optional<std::string> values;
  std::optional<std::string> indices;
  /// The error; code "" for none.
  std::string code;
  std::string field;
  std::string reason;
};

/// Reads one line. Throws std::runtime_error with `where` if it is malformed.
Case ParseCase(const std::string& line, const std::string& where);

/// Reads every case of every file of tests/conformance/cases, in order. Throws
/// if there are no cases, or two of one name.
std::vector<Case> AllCases();

}  // namespace topk::testing
