// The slow right answer, written from the operators' pages and from nothing
// else: it shares no code with core/.
#pragma once

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

/// Returns what a request must give, whatever the limits of a server.
Expectation Oracle(const v1::TopKRequest& request);

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
