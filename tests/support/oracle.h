// The slow right answer, written from the operators' pages and from nothing
// else: it shares no code with core/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topk/v1/topk.pb.h"

namespace topk::testing {

/// A rule that a request breaks.
struct Violation {
  /// A google.rpc.Code.
  int code;
  /// The path of the field at fault.
  std::string field;
};

/// What a request must give.
struct Expectation {
  /// All rules that it breaks; the service may name any one of them. Empty if
  /// the request is right.
  std::vector<Violation> violations;
  /// The answer's tensors, if it is right.
  v1::TopKResponse response;
};

/// The limits of the process that is asked; as core/plan/plan.h has them.
struct OracleLimits {
  int64_t max_elements = int64_t{1} << 34;
  int64_t max_output_bytes = (int64_t{1} << 31) - (int64_t{1} << 20);
};

/// Returns what a request must give.
Expectation Oracle(const v1::TopKRequest& request,
                   const OracleLimits& limits = OracleLimits());

/// Returns whether a violation of this code and field is among those expected.
bool Allows(const Expectation& expectation, int code, const std::string& field);

/// An element as the number it means. On the machines we test, long double
/// holds every value of the twelve types exactly.
struct Number {
  bool nan;
  long double value;
};

/// Reads element `i` of packed little-endian data.
Number ReadNumber(v1::DataType type, const std::string& data, size_t i);

/// Returns the size of an element in bytes; 0 for a type that is none.
size_t ElementBytes(int data_type);

}  // namespace topk::testing
