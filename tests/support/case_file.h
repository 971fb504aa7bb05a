// Test cases as data: tests/conformance/cases/*.cases, one case per line.
//
//   name | dialect version | type shape | rest of the request | data | expected
//
// name      UPPER_SNAKE, lower_snake or CamelCase; unique in its file.
// dialect   The dialect's name or number, and a version: "onnx 11".
// type      E.g. "f32 [3, 4]". The type may also be a number.
// rest      The TopKRequest in protobuf text format, without spec, tensor type
//           and shape: `onnx { axis: 1 k { value: 3 } }`. May add tensor
//           fields: `tensor { strides: [4, 1] }`.
// data      Elements in row-major order: numbers, nan, -nan, inf, -inf, -0,
//           0x bits; or `zeros`; or `random SEED`; or `bytes N`, N zero bytes
//           regardless of the shape.
// expected  `values ; indices`, elements as above; or `oracle`, the oracle's
//           result; or `CODE field REASON`, e.g. `INVALID_ARGUMENT onnx.k
//           K_EXCEEDS_DIMENSION`, and optionally the message after it.
//
// Blank lines and lines that begin with # are ignored.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "topk/v1/topk.pb.h"

namespace topk::testing {

/// A line of a case file.
struct Case {
  std::string name;
  /// File and line, for error messages.
  std::string where;
  v1::TopKRequest request;
  /// The expected data. Not set if the line expects `oracle` or an error.
  std::optional<std::string> values;
  std::optional<std::string> indices;
  /// The expected error; "" if none.
  std::string code;
  std::string field;
  std::string reason;
  /// "" if the line has none.
  std::string message;
};

/// Reads all cases in tests/conformance/cases, in order. Throws
/// std::runtime_error with the file and line if a line is malformed.
std::vector<Case> AllCases();

}  // namespace topk::testing
