#include "client/numpy/npy.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "client/numpy/file_bytes.h"
#include "core/base/checked.h"
#include "core/base/packing.h"
#include "core/base/text.h"

namespace topk {
namespace {

// Returns the DType for a NumPy type, e.g. f32 for "f4".
Result<DType> TypeOf(const NpyHeader& header, std::optional<DType> as) {
  if (as) {
    const DTypeInfo& type = InfoOf(*as);
    for (const char* kind : {"V", "u", "i"}) {
      if (StrCat(kind, type.bytes) == header.type) return *as;
    }
    return InvalidArgument("NPY_DTYPE", "file",
                           StrCat("--dtype ", type.name, " reads ", type.bytes,
                                  "-byte elements (u", type.bytes, ", V",
                                  type.bytes, "); the file has ", header.type));
  }
  for (const DTypeInfo& row : kDTypes) {
    if (HasNpyName(row) &&
        StrCat(row.name.substr(0, 1), row.bytes) == header.type) {
      return row.type;
    }
  }
  return InvalidArgument(
      "NPY_DTYPE", "file",
      StrCat("element type '", header.type.substr(0, 32),
             "' is not one of f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8; ",
             header.type == "V2"   ? "for bfloat16 give --dtype bf16"
             : header.type == "V1" ? "give the type, e.g. --dtype f8e4m3"
             : header.type == "b1" ? "save x.view('u1') instead"
                                   : "save e.g. x.astype('f4') instead"));
}

// A file's header, and the element type and data size that the header implies.
struct NpyLayout {
  NpyHeader header;
  DType dtype;
  int64_t bytes;
};

Result<NpyLayout> NpyLayoutOf(std::span<const std::byte> file,
                              std::optional<DType> as) {
  Result<NpyHeader> header = ParseNpyHeader(file);
  if (!header.ok()) return header.status();
  const Result<DType> dtype = TypeOf(*header, as);
  if (!dtype.ok()) return dtype.status();
  int64_t bytes = InfoOf(*dtype).bytes;
  for (const int64_t size : header->shape) {
    if (!CheckedMultiply(bytes, size, &bytes)) {
      return MalformedNpy("its shape overflows 63 bits");
    }
  }
  return NpyLayout{*std::move(header), *dtype, bytes};
}

// Packs elements that are stored in the lowest bits of one byte each. The other
// bits must be zero or a sign extension.
Result<std::vector<std::byte>> PackElements(const DTypeInfo& type,
                                            std::span<const std::byte> data) {
  const int spare = 8 - type.bits;
  std::vector<std::byte> highest(data.size());
  for (size_t i = 0; i < data.size(); ++i) {
    const auto byte = static_cast<uint8_t>(data[i]);
    const auto bits = static_cast<uint8_t>(byte << spare);
    if (bits >> spare != byte &&
        (type.sign == 0 || type.is_float ||
         static_cast<int8_t>(bits) >> spare != static_cast<int8_t>(byte))) {
      return InvalidArgument(
          "NPY_VALUE", "file",
          StrCat("element ", i, " is ", int{byte}, ", out of range for ",
                 type.name, ", which has ", type.bits, " bits"));
    }
    highest[i] = static_cast<std::byte>(bits);
  }
  const auto count = static_cast<int64_t>(data.size());
  int64_t bytes = 0;
  CheckedBytes(type, count, &bytes);
  std::vector<std::byte> packed(static_cast<size_t>(bytes));
  Pack(type, highest.data(), count, packed.data());
  return packed;
}

std::string UnpackElements(const DTypeInfo& type, int64_t count,
                           std::string_view data) {
  std::string bytes(static_cast<size_t>(count), '\0');
  Unpack(type, std::as_bytes(std::span(data)).data(), 0, count,
         std::as_writable_bytes(std::span(bytes)).data());
  const int spare = 8 - type.bits;
  for (char& byte : bytes) {
    byte = static_cast<char>(type.sign != 0 && !type.is_float
                                 ? static_cast<int8_t>(byte) >> spare
                                 : static_cast<uint8_t>(byte) >> spare);
  }
  return bytes;
}

// Copies the elements into little-endian row-major order.
std::vector<std::byte> Reorder(const NpyHeader& header,
                               std::span<const std::byte> data, size_t width) {
  std::vector<std::byte> out(data.size());
  const size_t rank = header.shape.size();
  std::vector<size_t> at(rank);       // the coordinate of the next element
  std::vector<size_t> strides(rank);  // the file's strides, in elements
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

bool HasNpyName(const DTypeInfo& type) {
  return !type.packed() &&
         StrCat(type.name.substr(0, 1), type.bits) == type.name;
}

Result<size_t> NpyFileSize(std::span<const std::byte> start,
                           std::optional<DType> as) {
  const Result<NpyLayout> layout = NpyLayoutOf(start, as);
  if (!layout.ok()) return layout.status();
  return layout->header.data_offset + static_cast<size_t>(layout->bytes);
}

Result<NpyArray> ParseNpy(std::span<const std::byte> file,
                          std::shared_ptr<const void> owner,
                          std::optional<DType> as) {
  const Result<NpyLayout> layout = NpyLayoutOf(file, as);
  if (!layout.ok()) return layout.status();
  const NpyHeader& header = layout->header;
  const DTypeInfo& type = InfoOf(layout->dtype);
  const std::span<const std::byte> data = file.subspan(header.data_offset);
  if (data.size() != static_cast<size_t>(layout->bytes)) {
    return MalformedNpy(StrCat("it has ", data.size(),
                               " bytes of data; its shape and type imply ",
                               layout->bytes));
  }
  NpyArray array{type.type, header.shape, data, std::move(owner)};
  const bool transposed = header.fortran_order && header.shape.size() > 1;
  if (transposed || (header.big_endian && type.bytes > 1)) {
    auto reordered = std::make_shared<std::vector<std::byte>>(
        Reorder(header, data, static_cast<size_t>(type.bytes)));
    array.data = *reordered;
    array.owner = std::move(reordered);
  }
  if (type.packed()) {
    Result<std::vector<std::byte>> elements = PackElements(type, array.data);
    if (!elements.ok()) return elements.status();
    auto packed =
        std::make_shared<std::vector<std::byte>>(*std::move(elements));
    array.data = *packed;
    array.owner = std::move(packed);
  }
  return array;
}

Result<NpyArray> ReadNpy(const std::string& path, std::optional<DType> as) {
  Result<FileBytes> file = ReadFileBytes(path);
  if (!file.ok()) return file.status();
  return ParseNpy(file->data, file->owner, as);
}

std::string NpyBytes(DType dtype, std::span<const int64_t> shape,
                     std::string_view data) {
  const DTypeInfo& info = InfoOf(dtype);
  const std::string type = HasNpyName(info)
                               ? StrCat(info.bytes == 1 ? "|" : "<",
                                        info.name.substr(0, 1), info.bytes)
                               : StrCat("|V", info.bytes);
  std::string unpacked;
  if (info.packed()) {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    data = unpacked = UnpackElements(info, count, data);
  }
  return NpyFileStart(type, shape).append(data);
}

Status WriteFile(const std::string& path, std::string_view content) {
  const std::string temporary = StrCat(path, ".", getpid());
  std::ofstream file(temporary, std::ios::binary);
  file << content;
  file.close();
  if (!file || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    std::remove(temporary.c_str());
    return {Code::kNotFound, "FILE", "out",
            StrCat("cannot write ", path, ": ", ErrnoText(error))};
  }
  return {};
}

}  // namespace topk
