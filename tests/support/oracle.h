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

/// The expected result of a request.
struct Expectation {
  /// False for a dialect that only its cases describe.
  bool judged = true;
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
  int64_t max_rank = 64;
};

/// Returns what a request must give.
Expectation Oracle(const v1::TopKRequest& request,
                   const OracleLimits& limits = OracleLimits());

/// Returns whether a violation of this code and field is among those expected.
bool Allows(const Expectation& expectation, int code, const std::string& field);

/// An element as the number it means. On the machines we test, long double
/// holds every value of all types exactly.
struct Number {
  bool nan;
  long double value;
};

/// Returns the size of an element in bits; 0 for an unknown type.
size_t ElementBits(int data_type);

/// Returns the length of `count` packed elements in bytes.
size_t DataBytes(int data_type, size_t count);

/// Returns the bits of element `i` of packed little-endian data, the lowest
/// those of the number; sets them.
uint64_t ReadBits(int data_type, const std::string& data, size_t i);
void WriteBits(int data_type, size_t i, uint64_t bits, std::string& data);

/// Returns what the bits of an element mean.
Number NumberOf(v1::DataType type, uint64_t bits);

/// Reads element `i` of packed little-endian data.
Number ReadNumber(v1::DataType type, const std::string& data, size_t i);

}  // namespace topk::testing
