// A slow reference implementation, written only from the operators'
// specifications. It shares no code with core/.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "topk/v1/topk.pb.h"

namespace topk::testing {

/// A rule that a request violates.
struct Violation {
  /// A google.rpc.Code.
  int code;
  /// The path of the offending field.
  std::string field;
};

/// The expected outcome of a request.
struct Expectation {
  /// False for a dialect that the oracle does not implement.
  bool is_known = true;
  /// All violations, any of which the service may report. Empty if valid.
  std::vector<Violation> violations;
  /// The expected tensors if the request is valid.
  v1::TopKResponse response;
};

/// The limits of the server under test, defined as in core/plan/plan.h.
struct OracleLimits {
  int64_t max_elements = int64_t{1} << 34;
  int64_t max_output_bytes = (int64_t{1} << 31) - (int64_t{1} << 20);
  int64_t max_rank = 64;
};

/// Returns the expected outcome of a request.
Expectation Oracle(const v1::TopKRequest& request,
                   const OracleLimits& limits = OracleLimits());

/// Serializes a response without the fields that may differ between runs.
std::string Comparable(v1::TopKResponse response);

/// Returns true if `expectation` contains a violation with this code and field.
bool Allows(const Expectation& expectation, int code, const std::string& field);

/// The numerical value of an element. On the tested machines, a long double can
/// represent all values of all types exactly.
struct Number {
  bool nan;
  long double value;
};

/// Orders numbers as the operators do. All NaNs are equal and above infinity.
inline bool operator<(const Number& a, const Number& b) {
  return !a.nan && (b.nan || a.value < b.value);
}

/// Returns the offset of the element at a coordinate, in elements.
int64_t OffsetOf(const std::vector<int64_t>& at,
                 const std::vector<int64_t>& strides);

/// Calls `fn` with each coordinate of a shape, in row-major order.
void ForEachCoordinate(
    const std::vector<int64_t>& shape,
    const std::function<void(const std::vector<int64_t>&)>& fn);

/// Returns the indices of the k best numbers. Equal numbers rank by index.
std::vector<int64_t> SelectBest(const std::vector<Number>& numbers, int64_t k,
                                bool largest, bool by_index);

/// Returns the element types that a version of an operator accepts. `level` is
/// DirectML's feature level.
std::vector<v1::DataType> AllowedTypes(v1::Dialect dialect, int version,
                                       int level = 0);

/// Returns the size of an element in bits, or 0 if the type is unknown.
size_t ElementBits(int data_type);

/// Returns the size of `count` packed elements in bytes.
size_t DataBytes(int data_type, size_t count);

/// Read and write the bits of element `i` of packed little-endian data. The
/// bits are in the low bits of the result or of `bits`.
uint64_t ReadBits(int data_type, const std::string& data, size_t i);
void WriteBits(int data_type, size_t i, uint64_t bits, std::string& data);

/// Returns the number that the bits of an element represent.
Number NumberOf(v1::DataType type, uint64_t bits);

/// Returns element `i` of packed little-endian data.
Number ReadNumber(v1::DataType type, const std::string& data, size_t i);

}  // namespace topk::testing
