#include "tests/support/case_file.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sstream>
#include <stdexcept>

#include "core/dialects/registry.h"
#include "tests/support/oracle.h"

namespace topk::testing {
namespace {

// Returns an enum value in protobuf's text format: a number unchanged, or the
// full name of a short name such as "f32".
std::string EnumValue(const std::string& prefix, std::string value) {
  if (value.find_first_not_of("-0123456789") == std::string::npos) return value;
  std::transform(
      value.begin(), value.end(), value.begin(),
      [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return prefix + value;
}

class Reader {
 public:
  explicit Reader(const std::string& where) : where_(where) {}

  [[noreturn]] void Fail(const std::string& what) const {
    throw std::runtime_error(where_ + ": " + what);
  }

  std::vector<std::string> Columns(const std::string& line) const {
    std::vector<std::string> columns;
    size_t begin = 0;
    for (;;) {
      const size_t end = line.find(" | ", begin);
      std::string column = line.substr(begin, end - begin);
      column.erase(0, column.find_first_not_of(' '));
      column.erase(column.find_last_not_of(' ') + 1);
      columns.push_back(column);
      if (end == std::string::npos) break;
      begin = end + 3;
    }
    if (columns.size() != 6) Fail("a case has 6 columns");
    return columns;
  }

  // Merges a request in protobuf's text format into `request`.
  void Merge(const std::string& text, v1::TopKRequest& request) const {
    if (!google::protobuf::TextFormat::MergeFromString(text, &request)) {
      Fail("not a request: " + text);
    }
  }

  // Parses columns such as "onnx 11" and "f32 [3, 4]".
  void ReadSpecAndTensor(const std::string& spec, const std::string& tensor,
                         v1::TopKRequest& request) const {
    const size_t version = spec.find(' ');
    const size_t shape = tensor.find(" [");
    if (version == std::string::npos || shape == std::string::npos) {
      Fail("no `dialect version` and `type [shape]`");
    }
    Merge("spec { dialect: " + EnumValue("DIALECT_", spec.substr(0, version)) +
              " version: " + spec.substr(version) + " } tensor { data_type: " +
              EnumValue("DATA_TYPE_", tensor.substr(0, shape)) +
              " shape: " + tensor.substr(shape) + " }",
          request);
  }

  int64_t Integer(const std::string& text) const {
    return Parse<int64_t>(text);
  }

  uint64_t Element(int type, const std::string& text) const {
    const size_t width = ElementBits(type);
    if (text.rfind("0x", 0) == 0) {
      const auto bits = Parse<uint64_t>(text.substr(2), 16);
      if (width < 64 && bits >> width != 0) {
        Fail("not bits of the type: " + text);
      }
      return bits;
    }
    const auto value = Parse<long double>(text);
    if (type == v1::DATA_TYPE_F64) {
      return std::bit_cast<uint64_t>(static_cast<double>(value));
    }
    if (type == v1::DATA_TYPE_F32) {
      return std::bit_cast<uint32_t>(static_cast<float>(value));
    }
    if (value > -9223372036854775809.0L && value < 0x1p64L) {
      uint64_t bits = value < 0
                          ? static_cast<uint64_t>(static_cast<int64_t>(value))
                          : static_cast<uint64_t>(value);
      if (width < 64) bits &= (uint64_t{1} << width) - 1;
      if (IsNumber(type, bits, value)) return bits;
    }
    // Only integer types over 16 bits get here. None can represent the number.
    if (width > 16) Fail("not a value of the type: " + text);
    return SearchedBits(type, value, text);
  }

  std::string Elements(int type, const std::string& text) const {
    if (ElementBits(type) == 0) {
      Fail("the type has no elements: write `bytes N`");
    }
    std::string data;
    size_t count = 0;
    const auto add = [&](uint64_t bits) {
      data.resize(DataBytes(type, count + 1));
      WriteBits(type, count++, bits, data);
    };
    std::istringstream in(text);
    std::string word;
    while (in >> word) {
      const size_t dots = word.find("..");
      if (dots == std::string::npos) {
        add(Element(type, word));
        continue;
      }
      const int64_t first = Integer(word.substr(0, dots));
      const int64_t last = Integer(word.substr(dots + 2));
      const int64_t step = first <= last ? 1 : -1;
      for (int64_t i = first; i != last + step; i += step) {
        add(Element(type, std::to_string(i)));
      }
    }
    return data;
  }

  std::string Data(const v1::Tensor& tensor, const std::string& text) const {
    std::istringstream in(text);
    std::string word, argument, more;
    in >> word >> argument >> more;
    if (word != "zeros" && word != "random" && word != "bytes") {
      return Elements(tensor.data_type(), text);
    }
    if (!more.empty() || (word == "zeros") != argument.empty()) {
      Fail("not `zeros`, `random SEED` or `bytes N`: " + text);
    }
    if (word == "bytes") {
      const int64_t size = Integer(argument);
      if (size < 0 || size > 1000000) Fail("not a length: " + argument);
      return std::string(static_cast<size_t>(size), '\0');
    }
    int64_t count = 1;
    for (const int64_t size : tensor.shape()) count *= size;
    std::string data(DataBytes(tensor.data_type(), static_cast<size_t>(count)),
                     '\0');
    if (word == "random") {
      std::mt19937_64 random(static_cast<uint64_t>(Integer(argument)));
      for (char& byte : data) byte = static_cast<char>(random());
    }
    return data;
  }

 private:
  // Parses the whole text as a number.
  template <class Value, class... Base>
  Value Parse(const std::string& text, Base... base) const {
    Value value = 0;
    const char* const end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, value, base...);
    if (error != std::errc() || at != end) Fail("not a number: " + text);
    return value;
  }

  // Tries all bit patterns of a type up to 16 bits. NaN yields a quiet NaN.
  uint64_t SearchedBits(int type, long double value,
                        const std::string& text) const {
    const size_t width = ElementBits(type);
    uint64_t bits = 0;
    if (std::isnan(value)) {
      if (std::signbit(value)) bits = uint64_t{1} << (width - 1);
      if (type == v1::DATA_TYPE_F16) bits |= 0x7E00;
      if (type == v1::DATA_TYPE_BF16) bits |= 0x7FC0;
    }
    for (; bits >> width == 0; ++bits) {
      if (IsNumber(type, bits, value)) return bits;
    }
    Fail("not a value of the type: " + text);
  }

  static bool IsNumber(int type, uint64_t bits, long double value) {
    const Number number = NumberOf(static_cast<v1::DataType>(type), bits);
    if (std::isnan(value) || number.nan) {
      return std::isnan(value) && number.nan;
    }
    return number.value == value &&
           std::signbit(number.value) == std::signbit(value);
  }

  const std::string where_;
};

}  // namespace

Case ParseCase(const std::string& line, const std::string& where) {
  const Reader reader(where);
  const std::vector<std::string> columns = reader.Columns(line);
  Case result;
  result.name = columns[0];
  result.where = where;
  if (result.name.empty() ||
      result.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz"
                                    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") !=
          std::string::npos) {
    reader.Fail("not a name: " + result.name);
  }
  v1::TopKRequest& request = result.request;
  reader.Merge(columns[3], request);
  reader.ReadSpecAndTensor(columns[1], columns[2], request);
  if (!request.tensor().has_shared_memory()) {
    request.mutable_tensor()->set_data(
        reader.Data(request.tensor(), columns[4]));
  }
  const std::string& expected = columns[5];
  if (expected == "oracle") return result;
  const size_t semicolon = expected.find(';');
  if (semicolon == std::string::npos) {
    static const std::set<std::string> kCodes = {
        "INVALID_ARGUMENT", "RESOURCE_EXHAUSTED", "UNIMPLEMENTED"};
    std::istringstream in(expected);
    if (!(in >> result.code >> result.field >> result.reason) ||
        !(in >> std::ws).eof() || kCodes.count(result.code) == 0) {
      reader.Fail("neither an answer nor `CODE field REASON`: " + expected);
    }
    return result;
  }
  const Dialect* const dialect = FindDialect(request.attributes_case());
  if (dialect == nullptr) reader.Fail("a result without attributes");
  const auto index_type = static_cast<int>(dialect->peek(request).index_type);
  result.values = reader.Elements(request.tensor().data_type(),
                                  expected.substr(0, semicolon));
  result.indices = reader.Elements(index_type, expected.substr(semicolon + 1));
  return result;
}

std::vector<Case> AllCases() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(
           TOPK_SOURCE_DIR "/tests/conformance/cases")) {
    if (entry.path().extension() != ".cases") {
      throw std::runtime_error(entry.path().string() + " is not a case file");
    }
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<Case> cases;
  std::set<std::string> names;
  for (const auto& file : files) {
    std::ifstream in(file);
    std::string line;
    for (int number = 1; std::getline(in, line); ++number) {
      if (line.empty() || line[0] == '#') continue;
      const std::string where =
          file.filename().string() + ":" + std::to_string(number);
      cases.push_back(ParseCase(line, where));
      cases.back().name = file.stem().string() + "_" + cases.back().name;
      if (!names.insert(cases.back().name).second) {
        throw std::runtime_error(where + ": the name is not unique");
      }
    }
  }
  if (cases.empty())
    throw std::runtime_error("no cases in tests/conformance/cases");
  return cases;
}

}  // namespace topk::testing
