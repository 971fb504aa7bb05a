#include "client/numpy/text.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/text.h"

namespace topk {
namespace {

Status TextError(int64_t line, std::string_view what) {
  return InvalidArgument("TEXT", "file", StrCat("line ", line, what));
}

template <class T>
std::errc Parse(std::string_view text, T& number) {
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  return read.ptr == end ? read.ec : std::errc::invalid_argument;
}

template <class T>
NpyArray ArrayOf(std::vector<T> numbers, DType dtype) {
  const auto owner = std::make_shared<std::vector<T>>(std::move(numbers));
  return {dtype, {}, std::as_bytes(std::span(*owner)), owner};
}

// The numbers of a file.
class Numbers {
 public:
  Status Add(std::string_view cell, int64_t line, int64_t column) {
    const auto error = [&](std::string_view rule) {
      return TextError(
          line, StrCat(", column ", column, ": ", Quote(cell), " ", rule));
    };
    double real = 0;
    const std::errc read = Parse(cell, real);
    if (read == std::errc::result_out_of_range) {
      return error("is out of range for f64");
    }
    // std::from_chars accepts e.g. nan(1).
    if (read != std::errc() || cell.ends_with(')')) {
      return error(line == 1 ? "is not a number; tail -n +2 skips a header"
                             : "is not a number");
    }
    reals_.push_back(real);
    if (!are_integers_) return {};
    const std::errc fits = Parse(cell, integers_.emplace_back());
    are_integers_ = fits != std::errc::invalid_argument;
    if (fits == std::errc::result_out_of_range && too_large_.ok()) {
      too_large_ = error("is out of range for i64");
    }
    return {};
  }

  Result<NpyArray> Take() {
    if (!are_integers_) return ArrayOf(std::move(reals_), DType::kF64);
    if (!too_large_.ok()) return too_large_;
    return ArrayOf(std::move(integers_), DType::kI64);
  }

 private:
  std::vector<double> reals_;
  std::vector<int64_t> integers_;  // incomplete unless are_integers_
  bool are_integers_ = true;
  Status too_large_;  // the error if all numbers are integers
};

}  // namespace

Result<NpyArray> ParseText(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const std::string_view separators =
      text.find(',') != std::string_view::npos ? "," : " \t";
  Numbers numbers;
  int64_t rows = 0, columns = 0, first_line = 0;
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t line_end = std::min(text.find('\n'), text.size());
    std::string_view line = Trimmed(text.substr(0, line_end), " \t\r");
    text.remove_prefix(std::min(line_end + 1, text.size()));
    if (line.empty()) continue;
    int64_t cells = 0;
    for (bool more = true; more;) {
      const size_t end = std::min(line.find_first_of(separators), line.size());
      const Status added =
          numbers.Add(Trimmed(line.substr(0, end)), number, ++cells);
      if (!added.ok()) return added;
      more = end < line.size();
      line.remove_prefix(std::min(end + 1, line.size()));
      if (separators != ",") line = Trimmed(line);
    }
    if (rows++ == 0) {
      columns = cells;
      first_line = number;
    }
    if (cells != columns) {
      return TextError(number, StrCat(" has ", cells, " numbers, but line ",
                                      first_line, " has ", columns));
    }
  }
  if (rows == 0) {
    return InvalidArgument("TEXT", "file", "the file has no numbers");
  }
  Result<NpyArray> array = numbers.Take();
  if (array.ok()) {
    array->shape = {rows, columns};
    if (rows == 1 || columns == 1) array->shape = {rows * columns};
  }
  return array;
}

}  // namespace topk
