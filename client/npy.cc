#include "client/npy.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "client/file_bytes.h"
#include "core/base/checked.h"
#include "core/base/text.h"

namespace topk {
namespace {

// Returns our name of NumPy's type, e.g. "f32" of "f4".
Result<DType> TypeOf(const NpyHeader& header, bool as_bf16) {
  if (as_bf16) {
    if (header.type == "V2" || header.type == "u2" || header.type == "i2") {
      return DType::kBF16;
    }
    return InvalidArgument("NPY_DTYPE", "file",
                           Cat("--dtype bf16 reads 2-byte elements (u2, V2); "
                               "the file has ",
                               header.type));
  }
  for (const DTypeInfo& row : DTypes()) {
    if (row.type == DType::kBF16) continue;
    if (Cat(row.name.substr(0, 1), row.bytes) == header.type) return row.type;
  }
  return InvalidArgument(
      "NPY_DTYPE", "file",
      Cat("element type '", header.type.substr(0, 32),
          "' is not one of f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8; ",
          header.type == "V2"   ? "for bfloat16 give --dtype bf16"
          : header.type == "b1" ? "save x.view('u1') instead"
                                : "save it converted, e.g. x.astype('f4')"));
}

// Copies the elements into little-endian row-major order.
std::vector<std::byte> Reorder(const NpyHeader& header,
                               std::span<const std::byte> data, size_t width) {
  std::vector<std::byte> out(data.size());
  const size_t rank = header.shape.size();
  std::vector<size_t> at(rank);       // the coordinate of the next element
  std::vector<size_t> strides(rank);  // in the file, in elements
  size_t step = 1;
  for (size_t i = 0; i < rank; ++i) {
    const size_t d = header.fortran_order ? i : rank - 1 - i;
    strides[d] = step;
    step *= static_cast<size_t>(header.shape[d]);
  }
  size_t from = 0;
  for (size_t to = 0; to < out.size(); to += width) {
    std::memcpy(out.data() + to, data.data() + from * width, width);
    if (header.big_endian) {
      std::reverse(out.data() + to, out.data() + to + width);
    }
    for (size_t d = rank; d-- > 0;) {
      from += strides[d];
      if (++at[d] < static_cast<size_t>(header.shape[d])) break;
      from -= strides[d] * static_cast<size_t>(header.shape[d]);
      at[d] = 0;
    }
  }
  return out;
}

}  // namespace

Result<NpyArray> ParseNpy(std::span<const std::byte> file,
                          std::shared_ptr<const void> owner, bool as_bf16) {
  Result<NpyHeader> header = ParseNpyHeader(file);
  if (!header.ok()) return header.status();
  const Result<DType> dtype = TypeOf(*header, as_bf16);
  if (!dtype.ok()) return dtype.status();
  const int width = InfoOf(*dtype).bytes;
  int64_t bytes = width;
  for (const int64_t size : header->shape) {
    if (!CheckedMultiply(bytes, size, &bytes)) {
      return MalformedNpy("its shape overflows 63 bits");
    }
  }
  const std::span<const std::byte> data = file.subspan(header->data_offset);
  if (data.size() != static_cast<size_t>(bytes)) {
    return MalformedNpy(Cat("it has ", data.size(),
                            " bytes of data; its shape and type imply ",
                            bytes));
  }
  NpyArray array{*dtype, header->shape, data, std::move(owner)};
  const bool transposed = header->fortran_order && header->shape.size() > 1;
  if (transposed || (header->big_endian && width > 1)) {
    auto reordered = std::make_shared<std::vector<std::byte>>(
        Reorder(*header, data, static_cast<size_t>(width)));
    array.data = *reordered;
    array.owner = std::move(reordered);
  }
  return array;
}

Result<NpyArray> ReadNpy(const std::string& path, bool as_bf16) {
  Result<FileBytes> file = ReadFileBytes(path);
  if (!file.ok()) return file.status();
  return ParseNpy(file->data, file->owner, as_bf16);
}

Status WriteNpy(const std::string& path, DType dtype,
                std::span<const int64_t> shape, std::string_view data) {
  const DTypeInfo& info = InfoOf(dtype);
  const std::string type = dtype == DType::kBF16
                               ? "|V2"
                               : Cat(info.bytes == 1 ? "|" : "<",
                                     info.name.substr(0, 1), info.bytes);
  const std::string temporary = Cat(path, ".", getpid());
  std::ofstream file(temporary, std::ios::binary);
  file << NpyFileStart(type, shape) << data;
  file.close();
  if (!file || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    std::remove(temporary.c_str());
    return {Code::kNotFound, "FILE", "out",
            Cat("cannot write ", path, ": ", std::strerror(error))};
  }
  return {};
}

}  // namespace topk
