#include "client/npy.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "core/base/checked.h"
#include "core/base/text.h"

namespace topk {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
// NumPy itself refuses longer headers of untrusted files.
constexpr size_t kMaxHeaderBytes = 10000;

Status Malformed(std::string what) {
  return InvalidArgument("NPY_MALFORMED", "file",
                         Cat("not a .npy file: ", what));
}

// Reads the header's Python dictionary: a strict reader of exactly what NumPy
// writes and documents, {'descr': '<f4', 'fortran_order': False, 'shape': (3,
// 4), }.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view text) : text_(text) {}

  Result<NpyHeader> Read() {
    NpyHeader header;
    bool has_descr = false, has_order = false, has_shape = false;
    if (!Take('{')) return Malformed("the header is not a dictionary");
    while (!Take('}')) {
      std::string key;
      if (!TakeString(key) || !Take(':')) {
        return Malformed("the header has no key where one must be");
      }
      bool* seen = key == "descr"           ? &has_descr
                   : key == "fortran_order" ? &has_order
                   : key == "shape"         ? &has_shape
                                            : nullptr;
      if (seen == nullptr || *seen) {
        return Malformed(
            "the header's keys must be descr, fortran_order and "
            "shape, once each");
      }
      *seen = true;
      const bool ok = key == "descr"           ? TakeType(header)
                      : key == "fortran_order" ? TakeBool(header.fortran_order)
                                               : TakeShape(header.shape);
      if (!ok) {
        return Malformed(
            Cat("the header's ", key,
                key == "descr" ? " is not a plain element type" : " is wrong"));
      }
      if (!Take(',') && !Peek('}')) {
        return Malformed("the header has no comma where one must be");
      }
    }
    SkipSpace();
    if (!text_.empty()) return Malformed("the header has text after its end");
    if (!has_descr || !has_order || !has_shape) {
      return Malformed("the header lacks descr, fortran_order or shape");
    }
    return header;
  }

 private:
  void SkipSpace() {
    const size_t at = text_.find_first_not_of(" \n\t");
    text_.remove_prefix(std::min(at, text_.size()));
  }
  bool Peek(char c) {
    SkipSpace();
    return !text_.empty() && text_.front() == c;
  }
  bool Take(char c) {
    if (!Peek(c)) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool TakeWord(std::string_view word) {
    SkipSpace();
    if (text_.substr(0, word.size()) != word) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  bool TakeString(std::string& out) {
    const char quote = Peek('"') ? '"' : '\'';
    if (!Take(quote)) return false;
    const size_t end = text_.find(quote);
    if (end == std::string_view::npos) return false;
    out = std::string(text_.substr(0, end));
    text_.remove_prefix(end + 1);
    return true;
  }
  bool TakeType(NpyHeader& header) {
    std::string descr;
    if (!TakeString(descr) || descr.size() < 2) return false;
    const char order = descr.front();
    header.big_endian = order == '>';
    // '=' would be the writing machine's order; NumPy never writes it.
    if (order != '<' && order != '>' && order != '|') return false;
    header.type = descr.substr(1);
    return true;
  }
  bool TakeBool(bool& out) {
    out = TakeWord("True");
    return out || TakeWord("False");
  }
  bool TakeShape(std::vector<int64_t>& shape) {
    if (!Take('(')) return false;
    while (!Take(')')) {
      SkipSpace();
      int64_t size = 0;
      const auto [end, error] =
          std::from_chars(text_.data(), text_.data() + text_.size(), size);
      if (error != std::errc() || size < 0) return false;
      text_.remove_prefix(static_cast<size_t>(end - text_.data()));
      shape.push_back(size);
      if (!Take(',') && !Peek(')')) return false;
    }
    return true;
  }

  std::string_view text_;
};

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
          "' is not one of f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8",
          header.type == "V2" ? "; for bfloat16 give --dtype bf16" : ""));
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

Status CannotRead(const std::string& path) {
  return {Code::kNotFound, "FILE", "file",
          Cat("cannot read ", path, ": ", std::strerror(errno))};
}

Result<NpyArray> ReadStandardInput(bool as_bf16) {
  auto content = std::make_shared<std::vector<std::byte>>();
  size_t size = 0;
  for (;;) {
    content->resize(std::max<size_t>(size * 2, size_t{1} << 16));
    const ssize_t got =
        read(STDIN_FILENO, content->data() + size, content->size() - size);
    if (got < 0) return CannotRead("standard input");
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  const std::span<const std::byte> bytes(content->data(), size);
  return ParseNpy(bytes, std::move(content), as_bf16);
}

}  // namespace

Result<NpyHeader> ParseNpyHeader(std::span<const std::byte> file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()),
                              file.size());
  if (text.substr(0, kMagic.size()) != kMagic || text.size() < 10) {
    return Malformed("it does not begin with \\x93NUMPY");
  }
  const auto major = static_cast<unsigned char>(text[6]);
  const auto minor = static_cast<unsigned char>(text[7]);
  if (major < 1 || major > 3 || minor != 0) {
    return Malformed(Cat("format ", static_cast<int>(major), ".",
                         static_cast<int>(minor), " is not 1.0, 2.0 or 3.0"));
  }
  // The header's length: 2 bytes in format 1.0, 4 from 2.0 on.
  const size_t length_bytes = major == 1 ? 2 : 4;
  uint32_t length = 0;
  if (text.size() < 8 + length_bytes) return Malformed("it is cut off");
  std::memcpy(&length, text.data() + 8, length_bytes);
  const size_t begin = 8 + length_bytes;
  if (length > kMaxHeaderBytes || text.size() - begin < length) {
    return Malformed(Cat("its header of ", length, " bytes is ",
                         length > kMaxHeaderBytes ? "too long" : "cut off"));
  }
  Result<NpyHeader> header = HeaderReader(text.substr(begin, length)).Read();
  if (header.ok()) header->data_offset = begin + length;
  return header;
}

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
      return Malformed("its shape overflows 63 bits");
    }
  }
  const std::span<const std::byte> data = file.subspan(header->data_offset);
  if (data.size() != static_cast<size_t>(bytes)) {
    return Malformed(Cat("it has ", data.size(),
                         " bytes of data; its shape and type imply ", bytes));
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
  if (path == "-") return ReadStandardInput(as_bf16);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return CannotRead(path);
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd);
    return Status{Code::kNotFound, "FILE", "file",
                  Cat("cannot read ", path, ": not a regular file")};
  }
  const auto size = static_cast<size_t>(info.st_size);
  if (size == 0) {
    close(fd);
    return Malformed("it is empty");
  }
  void* memory = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  close(fd);
  if (memory == MAP_FAILED) return CannotRead(path);
  std::shared_ptr<const void> owner(
      memory, [size](void* mapped) { munmap(mapped, size); });
  return ParseNpy({static_cast<const std::byte*>(memory), size},
                  std::move(owner), as_bf16);
}

Status WriteNpy(const std::string& path, DType dtype,
                std::span<const int64_t> shape, std::string_view data) {
  const DTypeInfo& info = InfoOf(dtype);
  const std::string type = dtype == DType::kBF16
                               ? "|V2"
                               : Cat(info.bytes == 1 ? "|" : "<",
                                     info.name.substr(0, 1), info.bytes);
  std::string header =
      Cat("{'descr': '", type, "', 'fortran_order': False, 'shape': (");
  for (const int64_t size : shape) header += Cat(size, ", ");
  header += "), }";
  // The data begins at a multiple of 64 bytes, so that it can be mapped.
  header.append(63 - (header.size() + 10) % 64, ' ');
  header += '\n';
  const auto length = static_cast<uint16_t>(header.size());
  std::string start = Cat(kMagic, std::string_view("\x01\x00", 2));
  start.append(reinterpret_cast<const char*>(&length), 2);

  const std::string temporary = Cat(path, ".", getpid());
  std::ofstream file(temporary, std::ios::binary);
  file << start << header << data;
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
