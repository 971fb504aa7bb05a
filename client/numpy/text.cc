#include "client/numpy/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <string>
#include <string_view>
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

// The numbers of a file, and the smallest type that holds all of them.
class Numbers {
 public:
  Status Add(std::string_view cell, int64_t line, int64_t column) {
    const auto error = [&](std::string_view rule) {
      return TextError(
          line, StrCat(", column ", column, ": ", Quote(cell), " ", rule));
    };
    std::string_view digits = cell;
    if (digits.starts_with('+')) digits.remove_prefix(1);
    double real = 0;
    const std::errc read =
        digits.starts_with('-') && digits.size() < cell.size()
            ? std::errc::invalid_argument
            : Parse(digits, real);
    if (read == std::errc::result_out_of_range) {
      return error("is out of range for f64");
    }
    // std::from_chars accepts e.g. nan(1).
    if (read != std::errc() || digits.ends_with(')')) {
      return error(line == 1 ? "is not a number; --header skips line 1"
                             : "is not a number");
    }
    reals_.push_back(real);
    if (!are_integers_) return {};

    int64_t integer = 0;
    uint64_t large = 0;
    const std::errc fits = Parse(digits, integer);
    if (fits == std::errc::invalid_argument) {  // it has a fraction
      are_integers_ = false;
      integers_ = {};
      return {};
    }
    if (fits == std::errc() || Parse(digits, large) == std::errc()) {
      is_negative_ = is_negative_ || integer < 0;
      exceeds_i64_ = exceeds_i64_ || fits != std::errc();
      integers_.push_back(fits == std::errc() ? integer
                                              : static_cast<int64_t>(large));
    }
    const bool no_type = integers_.size() < reals_.size();
    if (wrong_type_.ok() && (no_type || (is_negative_ && exceeds_i64_))) {
      wrong_type_ = error(
          no_type
              ? "is out of range for i64 and u64"
              : "does not fit: no type holds negative integers and integers "
                "above 9223372036854775807");
    }
    return {};
  }

  Result<NpyArray> Take() {
    if (!are_integers_) return ArrayOf(std::move(reals_), DType::kF64);
    if (!wrong_type_.ok()) return wrong_type_;
    return ArrayOf(std::move(integers_),
                   exceeds_i64_ ? DType::kU64 : DType::kI64);
  }

 private:
  std::vector<double> reals_;
  // Empty unless all numbers are integers. May hold bits of uint64_t.
  std::vector<int64_t> integers_;
  bool are_integers_ = true;
  bool is_negative_ = false;
  bool exceeds_i64_ = false;
  // The error if all numbers are integers, but no integer type holds them.
  Status wrong_type_;
};

}  // namespace

Result<NpyArray> ParseText(std::span<const std::byte> file, bool has_header) {
  std::string_view text(reinterpret_cast<const char*>(file.data()),
                        file.size());
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) {
    return TextError(1, ": the text is UTF-16; save it as UTF-8");
  }
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  int64_t number = 0;
  const auto take_line = [&] {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    ++number;
    return Trimmed(line);
  };
  if (has_header) take_line();

  const std::string_view separators =
      text.find(',') != std::string_view::npos ? "," : " \t";
  Numbers numbers;
  int64_t rows = 0, columns = 0, first_line = 0;
  while (!text.empty()) {
    std::string_view line = take_line();
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
