#include "client/numpy/text.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "core/base/text.h"

namespace topk {
namespace {

constexpr std::string_view kSpace = " \t\r";

std::string_view Trim(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(kSpace), text.size());
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

std::string_view TakeCell(std::string_view& line) {
  const size_t end = std::min(line.find_first_of(",; \t"), line.size());
  const std::string_view cell = line.substr(0, end);
  const std::string_view rest = Trim(line.substr(end));
  const bool separated = !rest.empty() && (rest[0] == ',' || rest[0] == ';');
  line = Trim(rest.substr(separated));
  return cell;
}

// The numbers read so far. `reals` has all numbers, and `integers` only those
// that are integers.
struct Numbers {
  std::vector<double> reals;
  std::vector<int64_t> integers;

  bool Add(std::string_view cell) {
    if (cell.starts_with('+')) cell.remove_prefix(1);
    const char* const end = cell.data() + cell.size();
    double real = 0;
    const auto read = std::from_chars(cell.data(), end, real);
    if (read.ec != std::errc() || read.ptr != end) return false;
    int64_t integer = 0;
    const auto whole = std::from_chars(cell.data(), end, integer);
    if (whole.ec == std::errc() && whole.ptr == end) {
      integers.push_back(integer);
    }
    reals.push_back(real);
    return true;
  }
};

template <class T>
void SetData(std::vector<T> numbers, DType dtype, NpyArray& array) {
  const auto owner = std::make_shared<std::vector<T>>(std::move(numbers));
  array.dtype = dtype;
  array.data = std::as_bytes(std::span(*owner));
  array.owner = owner;
}

}  // namespace

bool IsText(std::span<const std::byte> file) {
  const auto start = file.first(std::min<size_t>(file.size(), 64));
  return !start.empty() && std::ranges::all_of(start, [](std::byte byte) {
    const auto c = static_cast<char>(byte);
    return (c >= ' ' && c <= '~') || c == '\n' || c == '\r' || c == '\t';
  });
}

Result<NpyArray> ParseText(std::span<const std::byte> file) {
  std::string_view text(reinterpret_cast<const char*>(file.data()),
                        file.size());
  Numbers numbers;
  int64_t rows = 0, columns = 0;
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = Trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.starts_with('[') && line.ends_with(']')) {
      line = Trim(line.substr(1, line.size() - 2));
    }
    if (line.empty()) continue;
    const std::string_view shown = line.substr(0, 40);
    int64_t cells = 0, wrong = 0;
    for (; !line.empty(); ++cells) wrong += !numbers.Add(TakeCell(line));
    if (number == 1 && wrong == cells) continue;  // skip a header line
    if (wrong > 0 || (rows > 0 && cells != columns)) {
      return InvalidArgument(
          "TEXT", "file",
          StrCat("line ", number, ", ", Quote(shown), ", has ", cells - wrong,
                 " numbers; expected ", rows == 0 ? cells : columns));
    }
    columns = cells;
    ++rows;
  }
  if (rows == 0) {
    return InvalidArgument(
        "TEXT", "file",
        "it has no numbers; each line is a list, e.g. 1,2 or [1, 2]");
  }
  NpyArray array;
  array.shape = {rows, columns};
  if (rows == 1 || columns == 1) array.shape = {rows * columns};
  if (numbers.integers.size() == numbers.reals.size()) {
    SetData(std::move(numbers.integers), DType::kI64, array);
  } else {
    SetData(std::move(numbers.reals), DType::kF64, array);
  }
  return array;
}

}  // namespace topk
