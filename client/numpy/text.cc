#include "client/numpy/text.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/text.h"

namespace topk {
namespace {

struct Cell {
  std::string_view text;
  int64_t line;
  int64_t column;
};

Status TextError(int64_t line, std::string_view what) {
  return InvalidArgument("TEXT", "file", StrCat("line ", line, what));
}

Status CellError(const Cell& cell, std::string_view rule) {
  return TextError(cell.line, StrCat(", column ", cell.column, ": ",
                                     Quote(cell.text), " ", rule));
}

template <class T>
std::errc Parse(std::string_view text, T& number) {
  // std::from_chars accepts no plus sign.
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  return read.ptr == end ? read.ec : std::errc::invalid_argument;
}

bool IsInteger(const Cell& cell) {
  int64_t number = 0;
  return Parse(cell.text, number) != std::errc::invalid_argument;
}

// Returns an integer without its sign and leading zeros.
std::string_view DigitsOf(std::string_view integer) {
  return integer.substr(
      std::min(integer.find_first_not_of("+-0"), integer.size()));
}

// Returns whether an integer equals `number`.
bool IsExact(std::string_view integer, double number) {
  char text[512];  // longer than any f64
  const auto end = std::to_chars(std::begin(text), std::end(text), number,
                                 std::chars_format::fixed, 0);
  return DigitsOf(integer) == DigitsOf({text, end.ptr});
}

// Converts all cells to `T`. Returns the error of the first cell that is not a
// number of this type.
template <class T>
Result<v1::Tensor> Convert(const std::vector<Cell>& cells, v1::DataType type) {
  v1::Tensor tensor;
  tensor.set_data_type(type);
  tensor.mutable_data()->reserve(cells.size() * sizeof(T));
  const Cell* rounded = nullptr;  // the first integer that T cannot hold
  for (const Cell& cell : cells) {
    T number{};
    const std::errc error = Parse(cell.text, number);
    if (std::is_integral_v<T> && error != std::errc()) {
      return CellError(cell,
                       "does not fit: neither i64 nor u64 holds all numbers");
    }
    if (error == std::errc::result_out_of_range) {
      return CellError(cell, "is out of range for f64");
    }
    // std::from_chars accepts e.g. nan(1).
    if (error != std::errc() || cell.text.ends_with(')')) {
      return CellError(cell, cell.line == 1
                                 ? "is not a number; --header skips line 1"
                                 : "is not a number");
    }
    if (!std::is_integral_v<T> && rounded == nullptr && IsInteger(cell) &&
        !IsExact(cell.text, static_cast<double>(number))) {
      rounded = &cell;
    }
    tensor.mutable_data()->append(reinterpret_cast<const char*>(&number),
                                  sizeof(T));
  }
  if (rounded != nullptr) {
    return CellError(*rounded,
                     "does not fit in f64, the type of all numbers in the file "
                     "because not all are integers");
  }
  return tensor;
}

Result<v1::Tensor> TensorOf(const std::vector<Cell>& cells) {
  if (!std::ranges::all_of(cells, IsInteger)) {
    return Convert<double>(cells, v1::DATA_TYPE_F64);
  }
  Result<v1::Tensor> tensor = Convert<int64_t>(cells, v1::DATA_TYPE_I64);
  return tensor.ok() ? std::move(tensor)
                     : Convert<uint64_t>(cells, v1::DATA_TYPE_U64);
}

}  // namespace

Result<v1::Tensor> ParseText(std::string_view text, bool has_header) {
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) {
    return TextError(1, ": the text is UTF-16; save it as UTF-8");
  }
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const std::string_view separators =
      text.find(',') != std::string_view::npos ? "," : " \t";
  std::vector<Cell> cells;
  int64_t rows = 0, columns = 0, first_line = 0, empty_line = 0;
  Status ragged;
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t line_end = std::min(text.find('\n'), text.size());
    std::string_view line = Trimmed(text.substr(0, line_end), " \t\r");
    text.remove_prefix(std::min(line_end + 1, text.size()));
    if (number == 1 && has_header) continue;
    if (line.empty()) {
      if (rows > 0 && empty_line == 0) empty_line = number;
      continue;
    }
    if (empty_line > 0 && columns == 1) {  // perhaps a missing number
      return TextError(empty_line, " is empty, but later lines have numbers");
    }
    int64_t count = 0;
    for (bool more = true; more;) {
      const size_t end = std::min(line.find_first_of(separators), line.size());
      cells.push_back({Trimmed(line.substr(0, end)), number, ++count});
      more = end < line.size();
      line.remove_prefix(std::min(end + 1, line.size()));
      if (separators != ",") line = Trimmed(line);
    }
    if (rows++ == 0) {
      columns = count;
      first_line = number;
    }
    if (count != columns && ragged.ok()) {
      ragged = TextError(number, StrCat(" has ", count, " numbers, but line ",
                                        first_line, " has ", columns));
    }
  }
  if (rows == 0) {
    return InvalidArgument("TEXT", "file", "the file has no numbers");
  }
  Result<v1::Tensor> tensor = TensorOf(cells);
  if (!tensor.ok()) return tensor;
  if (!ragged.ok()) return ragged;
  if (rows > 1 && columns > 1) tensor->add_shape(rows);
  tensor->add_shape(rows > 1 && columns > 1 ? columns : rows * columns);
  return tensor;
}

}  // namespace topk
