// A slow reference implementation, written only from the operators'
// specifications. It shares no code with core/. It does not check requests:
// tests/conformance/cases lists the rules that requests may break.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topk/v1/topk.pb.h"

namespace topk::testing {

/// A selection along one axis, in terms common to all operators.
struct Selection {
  v1::DataType type = v1::DATA_TYPE_F32;
  v1::DataType index_type = v1::DATA_TYPE_I64;
  std::vector<int64_t> shape;
  /// In elements. Empty strides mean packed.
  std::vector<int64_t> strides, value_strides, index_strides;
  int64_t axis = 0;
  int64_t k = 0;
  bool largest = true;
  bool by_index = false;
  int64_t index_offset = 0;
};

/// Writes the k best elements of each slice to `values` and their indices to
/// `indices`, which must have the size of the outputs. Skips null outputs.
/// Throws std::out_of_range if an element is outside its string.
void Select(const Selection& selection, const std::string& tensor,
            std::string* values, std::string* indices);

/// Returns the response to a valid request. Throws if the dialect is unknown.
v1::TopKResponse Oracle(const v1::TopKRequest& request);

/// Serializes a response without the fields that may differ between runs.
std::string Comparable(v1::TopKResponse response);

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
