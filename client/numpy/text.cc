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
    // std::from_chars accepts no plus sign.
    std::string_view number = cell;
    if (number.starts_with('+') && !number.starts_with("+-")) {
      number.remove_prefix(1);
    }
    double real = 0;
    const std::errc read = Parse(number, real);
    if (read == std::errc::result_out_of_range) {
      return error("is out of range for f64");
    }
    // std::from_chars accepts e.g. nan(1).
    if (read != std::errc() || number.ends_with(')')) {
      return error(line == 1 ? "is not a number; --header skips line 1"
                             : "is not a number");
    }
    reals_.push_back(real);
    if (!are_integers_) return {};
    int64_t integer = 0;
    uint64_t natural = 0;
    const std::errc fits = Parse(number, integer);
    const bool is_natural = Parse(number, natural) == std::errc();
    are_integers_ = fits != std::errc::invalid_argument;
    are_i64_ = are_i64_ && fits == std::errc();
    are_u64_ = are_u64_ && is_natural;
    if (!are_i64_ && !are_u64_ && wrong_type_.ok()) {
      wrong_type_ = error(
          fits == std::errc() || is_natural
              ? "does not fit: no type holds negative integers and integers "
                "above 9223372036854775807"
              : "is out of range for i64 and u64");
    }
    integers_.push_back(is_natural ? natural : static_cast<uint64_t>(integer));
    return {};
  }

  Result<NpyArray> Take() {
    if (!are_integers_) return ArrayOf(std::move(reals_), DType::kF64);
    if (!wrong_type_.ok()) return wrong_type_;
    return ArrayOf(std::move(integers_), are_i64_ ? DType::kI64 : DType::kU64);
  }

 private:
  std::vector<double> reals_;
  // Two's complement if are_i64_. Incomplete unless are_integers_.
  std::vector<uint64_t> integers_;
  bool are_integers_ = true;
  bool are_i64_ = true;
  bool are_u64_ = true;
  // The error if all numbers are integers, but no integer type holds them.
  Status wrong_type_;
};

}  // namespace

Result<NpyArray> ParseText(std::string_view text, bool has_header) {
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) {
    return TextError(1, ": the text is UTF-16; save it as UTF-8");
  }
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const std::string_view separators =
      text.find(',') != std::string_view::npos ? "," : " \t";
  Numbers numbers;
  int64_t rows = 0, columns = 0, first_line = 0;
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t line_end = std::min(text.find('\n'), text.size());
    std::string_view line = Trimmed(text.substr(0, line_end), " \t\r");
    text.remove_prefix(std::min(line_end + 1, text.size()));
    if (line.empty() || (number == 1 && has_header)) continue;
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
