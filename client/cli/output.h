// Prints responses as tables, CSV or JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "topk/v1/topk.pb.h"

namespace topk::cli {

/// Labels for the positions of a tensor, shown in tables.
struct Labels {
  /// A label for each position along the axis, or empty.
  std::vector<std::string> of_index;
  /// A label for each slice, or empty.
  std::vector<std::string> of_slice;
};

/// Returns the shortest text that represents element `i` of a packed tensor
/// exactly, e.g. 0.1, -3, nan or inf.
std::string ElementText(const v1::Tensor& tensor, int64_t i);

/// Returns the bits of element `i` of a packed tensor.
uint64_t ElementBits(const v1::Tensor& tensor, int64_t i);

/// Returns the number of elements of a tensor.
int64_t CountOf(const v1::Tensor& tensor);

/// Returns ElementText() of every element of a packed tensor.
std::vector<std::string> AllElements(const v1::Tensor& tensor);

/// Returns a slice's coordinates, with a colon for the axis: "[3, :, 0]".
std::string SliceName(const v1::Tensor& tensor, int axis, int64_t slice);

/// The size of a printed table.
struct TableShape {
  /// The maximum number of slices.
  int64_t max_slices;
  /// The width at which a slice's line wraps; 0 = never.
  int columns;
};

/// Writes a line per slice with the selected values and their indices, e.g.
/// "[3, :]  0.98 @12  0.97 @40". If there are labels, the labels of the slice
/// and of the selected elements come before the values, e.g.
/// "[3, :] seven  -> 7 9  0.98 @12  0.97 @40". If there are no slices or more
/// than `shape.max_slices`, a last line says so.
/// REQUIRES: ExpectedAnswer accepts the response, and `axis` is the request's
/// axis, >= 0.
void PrintTable(const v1::TopKResponse& response, int axis,
                const Labels& labels, const TableShape& shape,
                std::ostream& out);

/// Writes a header line and a line per element in row-major order: the
/// coordinates, the value and the index. The coordinate along the axis is
/// called "position". REQUIRES: as for PrintTable().
void PrintCsv(const v1::TopKResponse& response, int axis, std::ostream& out);

/// Returns {"shape", "values", "indices", ...} with flat row-major lists.
/// Numbers that JSON cannot represent are the strings "nan", "inf" and "-inf".
nlohmann::json ToJson(const v1::TopKResponse& response);

}  // namespace topk::cli
