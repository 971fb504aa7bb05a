#include "core/backends/cuda/parts.h"

#include <algorithm>

#include "core/backends/cuda/tasks.h"

namespace topk::cuda {

int64_t RowsPerPiece(const Plan& plan, int64_t elements) {
  const int64_t all = plan.outer * plan.n;
  const int64_t fit = std::max<int64_t>(elements / plan.inner, 1);
  if (fit >= plan.n) return std::min(fit / plan.n * plan.n, all);
  return std::min({std::max(fit, plan.k), plan.n, all});
}

std::vector<Part> CutRows(const Plan& plan, int64_t begin, int64_t end) {
  std::vector<Part> parts;
  while (begin < end) {
    Part part{begin / plan.n, 1, begin % plan.n, 0};
    part.rows = std::min(plan.n - part.first_row, end - begin);
    if (part.rows == plan.n) part.blocks = (end - begin) / plan.n;
    begin += part.blocks * part.rows;
    parts.push_back(part);
  }
  return parts;
}

Method MethodOf(const Plan& plan, int64_t rows_per_piece) {
  const int64_t blocks = std::max<int64_t>(rows_per_piece / plan.n, 1);
  // Where a slice has several pieces, all but the first have k items more.
  const bool whole = rows_per_piece >= plan.n;
  const int64_t length = whole ? plan.n : rows_per_piece + plan.k;
  return ChooseMethod(blocks * plan.inner, length, plan.k);
}

int64_t DeviceBytes(const Plan& plan, int64_t rows_per_piece) {
  const int element = InfoOf(plan.dtype).bytes;
  const auto item =
      static_cast<double>(OrderBytes(element) + BitsBytes(element));
  // In a double: a bound for sizes that no device has.
  const double rows = static_cast<double>(rows_per_piece);
  const double inner = static_cast<double>(plan.inner);
  const double k = static_cast<double>(plan.k);
  const double blocks =
      std::max(rows / static_cast<double>(plan.n), 1.0);  // at once
  const double pieces = 2 * rows * inner * element;
  // The sum of: the items that a selection sorts, twice, plus 10 % for CUB; the
  // carried, kept and arranged items; the outputs of two pieces.
  const bool carries = rows_per_piece < plan.n;
  const double sorted = 2.2 * (rows + (carries ? k : 0)) * inner * item;
  const double kept = 3 * k * blocks * inner * item;
  const double answers = 2 * k * blocks * inner * (element + 8);
  const double bytes = pieces + sorted + kept + answers;
  constexpr double kMax = 9e18;
  return static_cast<int64_t>(std::min(bytes, kMax));
}

}  // namespace topk::cuda
