#include "client/numpy/npy.h"

#include <charconv>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "core/base/checked.h"
#include "core/base/dtype.h"
#include "core/base/text.h"

namespace topk {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
// The types with a name in NumPy, and bf16.
constexpr std::span kNpyTypes(kDTypes, static_cast<size_t>(DType::kU64));

// Returns NumPy's name of a type without the byte order, e.g. "f4".
std::string NpyName(const DTypeInfo& type) {
  if (type.type == DType::kBF16) return "V2";
  return StrCat(type.name.substr(0, 1), type.bytes);
}

Status Malformed(std::string_view why) {
  return InvalidArgument("NPY_MALFORMED", "file",
                         StrCat("not a .npy file: ", why));
}

Result<const DTypeInfo*> FindNpyType(std::string_view descr) {
  for (const DTypeInfo& type : kNpyTypes) {
    if (!descr.starts_with('>') && descr.substr(1) == NpyName(type)) {
      return &type;
    }
  }
  return InvalidArgument(
      "NPY_DTYPE", "file",
      StrCat("the element type ", Quote(descr),
             " is not supported; convert the array with NumPy, e.g. "
             "x.astype('<f4')"));
}

// Removes `word` from the beginning of `text`. Returns false if `text` begins
// otherwise.
bool Take(std::string_view word, std::string_view& text) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

struct Header {
  std::string_view descr;
  bool fortran_order = false;
  v1::Tensor tensor;  // has only the shape
};

// Parses a header as numpy.save writes it, e.g.
// {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
std::optional<Header> ParseHeader(std::string_view text) {
  Header header;
  if (!Take("{'descr': '", text)) return {};
  header.descr = text.substr(0, text.find('\''));
  if (header.descr.empty()) return {};
  text.remove_prefix(header.descr.size());
  if (!Take("', 'fortran_order': ", text)) return {};
  header.fortran_order = Take("True", text);
  if (!header.fortran_order && !Take("False", text)) return {};
  if (!Take(", 'shape': (", text)) return {};
  while (!Take("), }", text)) {
    int64_t size = 0;
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), size);
    if (error != std::errc() || size < 0) return {};
    header.tensor.add_shape(size);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (!Take(", ", text) && !Take(",", text) && !text.starts_with(')')) {
      return {};
    }
  }
  if (text.find_first_not_of(" \n") != std::string_view::npos) return {};
  return header;
}

}  // namespace

Result<v1::Tensor> ParseNpy(std::string file) {
  std::string_view text = file;
  if (!Take(kMagic, text)) {
    return Malformed("it does not begin with \\x93NUMPY");
  }
  if (text.size() < 6) return Malformed("it is cut off");
  if (text[0] < 1 || text[0] > 3) {
    return Malformed("its version is not 1.0, 2.0 or 3.0");
  }
  // The length of the header has 2 bytes in version 1.0, and 4 bytes since 2.0.
  const size_t length_bytes = text[0] == 1 ? 2 : 4;
  uint32_t length = 0;
  std::memcpy(&length, text.data() + 2, length_bytes);
  text.remove_prefix(2 + length_bytes);
  if (text.size() < length) return Malformed("it is cut off");
  std::optional<Header> header = ParseHeader(text.substr(0, length));
  if (!header) {
    return Malformed(
        "the header is not one that numpy.save writes for an array of numbers");
  }
  text.remove_prefix(length);
  const Result<const DTypeInfo*> type = FindNpyType(header->descr);
  if (!type.ok()) return type.status();
  if (header->fortran_order) {
    return InvalidArgument("NPY_ORDER", "file",
                           "the array is in Fortran order; save "
                           "numpy.ascontiguousarray(x) instead");
  }
  int64_t bytes = (*type)->bytes;
  v1::Tensor& tensor = header->tensor;
  for (const int64_t size : tensor.shape()) {
    if (!CheckedMultiply(bytes, size, &bytes)) {
      return Malformed("its shape overflows 63 bits");
    }
  }
  if (text.size() != static_cast<size_t>(bytes)) {
    return Malformed(StrCat("it has ", text.size(),
                            " bytes of data; its shape and type imply ",
                            bytes));
  }
  tensor.set_data_type(static_cast<v1::DataType>((*type)->type));
  file.erase(0, file.size() - text.size());
  tensor.set_data(std::move(file));
  return std::move(tensor);
}

std::string NpyHeader(const v1::Tensor& tensor) {
  const DTypeInfo& type = InfoOf(static_cast<DType>(tensor.data_type()));
  std::string sizes;
  for (const int64_t size : tensor.shape()) {
    sizes += StrCat(sizes.empty() ? "" : ", ", size);
  }
  std::string header =
      StrCat("{'descr': '", type.bytes == 1 ? "|" : "<", NpyName(type),
             "', 'fortran_order': False, 'shape': (", sizes,
             tensor.shape_size() == 1 ? "," : "", "), }");
  // The data begins at a multiple of 64 bytes, so that it can be mapped.
  header.append(63 - (header.size() + 10) % 64, ' ');
  header += '\n';
  const auto length = static_cast<uint16_t>(header.size());
  std::string file = StrCat(kMagic, std::string_view("\x01\x00", 2));
  file.append(reinterpret_cast<const char*>(&length), 2);
  return file + header;
}

}  // namespace topk
