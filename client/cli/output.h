// Answers for people and for programs.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "core/base/dtype.h"
#include "topk/v1/topk.pb.h"

namespace topk::cli {

/// Names for the positions of a tensor, shown in tables.
struct Labels {
  /// One for each position along the axis, or empty.
  std::vector<std::string> of_index;
  /// One for each slice, or empty.
  std::vector<std::string> of_slice;
};

/// Returns element `i` of packed data in its shortest exact form: 0.1, -3,
/// nan, inf.
std::string ElementText(DType dtype, const std::string& data, int64_t i);

/// Returns every element of packed data as ElementText writes it.
std::vector<std::string> AllElements(const v1::Tensor& tensor);

/// Returns a slice's coordinates, the axis as a colon: "[3, :, 0]".
std::string SliceName(const v1::Tensor& tensor, int axis, int64_t slice);

/// How a table is to be printed.
struct TableShape {
  /// How many slices, at most.
  int64_t max_slices;
  /// A slice's line goes on below itself where it is longer; 0 = never.
  int columns;
};

/// Writes a line per slice, e.g.
///   [3, :]  0.98 @12  0.97 @40
/// or, with labels, what was found first:
///   [3] digit 7:  7 7 9   0.98 @12  0.97 @40  0.91 @7
/// and a last line that counts the slices left out, or reports that there are
/// no slices. REQUIRES: an answer that ExpectedAnswer accepts, and its axis.
void PrintTable(const v1::TopKResponse& response, int axis,
                const Labels& labels, const TableShape& shape,
                std::ostream& out);

/// Writes a header and a line per element in row-major order: its
/// coordinates, of which that along the axis is "position", value and index.
/// REQUIRES: as PrintTable().
void PrintCsv(const v1::TopKResponse& response, int axis, std::ostream& out);

/// Returns {"shape", "values", "indices", ...}: flat row-major lists. Numbers
/// are JSON numbers; those that JSON cannot represent are the strings "nan",
/// "inf" and "-inf".
nlohmann::json ToJson(const v1::TopKResponse& response);

}  // namespace topk::cli
