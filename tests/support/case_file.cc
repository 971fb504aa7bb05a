#include "tests/support/case_file.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <stdexcept>

#include "tests/support/oracle.h"

namespace topk::testing {
namespace {

std::vector<std::string> Columns(const std::string& line) {
  std::vector<std::string> columns;
  for (size_t begin = 0; begin < line.size();) {
    const size_t end = std::min(line.find(" | ", begin), line.size());
    std::string column = line.substr(begin, end - begin);
    column.erase(column.find_last_not_of(' ') + 1);
    columns.push_back(column.erase(0, column.find_first_not_of(' ')));
    begin = end + 3;
  }
  if (columns.size() != 6) throw std::runtime_error("a case has 6 columns");
  return columns;
}

// Returns an enum value in protobuf's text format: a number unchanged, or the
// full name of a short name such as "f32".
std::string EnumValue(const std::string& prefix, std::string value) {
  if (value.find_first_not_of("0123456789") == std::string::npos) return value;
  for (char& c : value) {
    c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return prefix + value;
}

// Merges a request in protobuf's text format into `request`.
void Merge(const std::string& text, v1::TopKRequest& request) {
  if (!google::protobuf::TextFormat::MergeFromString(text, &request)) {
    throw std::runtime_error("not a request: " + text);
  }
}

uint64_t Element(int type, const std::string& text) {
  if (text.starts_with("0x")) return std::stoull(text, nullptr, 16);
  const long double value = std::stold(text);
  const size_t width = ElementBits(type);
  if (type == v1::DATA_TYPE_F64) {
    return std::bit_cast<uint64_t>(static_cast<double>(value));
  }
  if (type == v1::DATA_TYPE_F32) {
    return std::bit_cast<uint32_t>(static_cast<float>(value));
  }
  if (width > 16) {
    return value < 0 ? static_cast<uint64_t>(static_cast<int64_t>(value))
                     : static_cast<uint64_t>(value);
  }
  // Try all bits of the type, positive or negative.
  uint64_t bits = std::signbit(value) ? uint64_t{1} << (width - 1) : 0;
  for (; bits >> width == 0; ++bits) {
    const Number number = NumberOf(static_cast<v1::DataType>(type), bits);
    if (number.nan ? std::isnan(value) : number.value == value) return bits;
  }
  throw std::runtime_error("not a value of the type: " + text);
}

std::string Elements(int type, const std::string& text) {
  std::string data;
  size_t count = 0;
  std::istringstream in(text);
  for (std::string word; in >> word;) {
    data.resize(DataBytes(type, count + 1));
    WriteBits(type, count++, Element(type, word), data);
  }
  return data;
}

std::string Data(const v1::Tensor& tensor, const std::string& text) {
  std::istringstream in(text);
  std::string word;
  size_t argument = 0;
  in >> word >> argument;
  if (word == "bytes") return std::string(argument, '\0');
  if (word != "zeros" && word != "random") {
    return Elements(tensor.data_type(), text);
  }
  size_t count = 1;
  for (const int64_t size : tensor.shape()) count *= static_cast<size_t>(size);
  std::string data(DataBytes(tensor.data_type(), count), '\0');
  if (word == "random") {
    std::mt19937_64 random(argument);
    for (char& byte : data) byte = static_cast<char>(random());
  }
  return data;
}

// Parses a line.
Case ParseCase(const std::string& line) {
  const std::vector<std::string> columns = Columns(line);
  Case result;
  result.name = columns[0];
  v1::TopKRequest& request = result.request;
  Merge(columns[3], request);
  // Columns such as "onnx 11" and "f32 [3, 4]".
  const size_t version = columns[1].find(' ');
  const size_t shape = columns[2].find(" [");
  Merge("spec { dialect: " +
            EnumValue("DIALECT_", columns[1].substr(0, version)) +
            " version: " + columns[1].substr(version) +
            " } tensor { data_type: " +
            EnumValue("DATA_TYPE_", columns[2].substr(0, shape)) +
            " shape: " + columns[2].substr(shape) + " }",
        request);
  if (!request.tensor().has_shared_memory()) {
    request.mutable_tensor()->set_data(Data(request.tensor(), columns[4]));
  }
  const std::string& expected = columns[5];
  if (expected == "oracle") return result;
  if (!expected.empty() && expected[0] >= 'A' && expected[0] <= 'Z') {
    std::istringstream in(expected);
    in >> result.code >> result.field >> result.reason >> std::ws;
    std::getline(in, result.message);
    return result;
  }
  const size_t semicolon = expected.find(';');
  result.values =
      Elements(request.tensor().data_type(), expected.substr(0, semicolon));
  const v1::TopKResponse response = Oracle(request);
  result.indices =
      Elements(response.has_indices() ? response.indices().data_type()
                                      : v1::DATA_TYPE_I64,
               expected.substr(semicolon + 1));
  return result;
}

}  // namespace

std::vector<Case> AllCases() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(
           TOPK_SOURCE_DIR "/tests/conformance/cases")) {
    files.push_back(entry.path());
  }
  std::ranges::sort(files);
  std::vector<Case> cases;
  for (const auto& file : files) {
    std::ifstream in(file);
    std::string line;
    for (int number = 1; std::getline(in, line); ++number) {
      if (line.empty() || line[0] == '#') continue;
      const std::string where =
          file.filename().string() + ":" + std::to_string(number);
      try {
        cases.push_back(ParseCase(line));
      } catch (const std::exception& error) {
        throw std::runtime_error(where + ": " + error.what());
      }
      cases.back().where = where;
      cases.back().name = file.stem().string() + "_" + cases.back().name;
    }
  }
  return cases;
}

}  // namespace topk::testing
