#include "client/numpy/npy_header.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <set>
#include <string>
#include <string_view>

#include "core/base/text.h"

namespace topk {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kMaxHeaderBytes = kMaxNpyStart - 12;

// Parses the header's Python dictionary. Accepts exactly what NumPy writes and
// documents, e.g. {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view text) : text_(text) {}

  Result<NpyHeader> Read() {
    NpyHeader header;
    std::set<std::string> seen;
    if (!Take('{')) return MalformedNpy("the header is not a dictionary");
    while (!Take('}')) {
      std::string key;
      if (!TakeString(key) || !Take(':')) {
        return MalformedNpy("a key or its colon is missing in the header");
      }
      const bool known =
          key == "descr" || key == "fortran_order" || key == "shape";
      if (!known || !seen.insert(key).second) {
        return MalformedNpy(
            "the header's keys must be descr, fortran_order and "
            "shape, once each");
      }
      const bool ok = key == "descr"           ? TakeType(header)
                      : key == "fortran_order" ? TakeBool(header.fortran_order)
                                               : TakeShape(header.shape);
      if (!ok) {
        return MalformedNpy(StrCat(
            "the header's ", key,
            key == "descr" ? " is not a plain element type" : " is wrong"));
      }
      if (!Take(',') && !Peek('}')) {
        return MalformedNpy("a comma is missing in the header");
      }
    }
    SkipSpace();
    if (!text_.empty())
      return MalformedNpy("the header has text after its end");
    if (seen.size() < 3) {
      return MalformedNpy("the header lacks descr, fortran_order or shape");
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
    // Reject '=' (native byte order), because NumPy never writes it.
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
    bool comma = false;
    while (!Take(')')) {
      SkipSpace();
      int64_t size = 0;
      const auto [end, error] =
          std::from_chars(text_.data(), text_.data() + text_.size(), size);
      if (error != std::errc() || size < 0) return false;
      text_.remove_prefix(static_cast<size_t>(end - text_.data()));
      if (text_.starts_with('L')) text_.remove_prefix(1);  // from Python 2
      shape.push_back(size);
      comma = Take(',');
      if (!comma && !Peek(')')) return false;
    }
    // In Python, "(3)" is a number; a tuple with one element has a comma.
    return shape.size() != 1 || comma;
  }

  std::string_view text_;
};

}  // namespace

Status MalformedNpy(std::string_view what) {
  return InvalidArgument("NPY_MALFORMED", "file",
                         StrCat("not a .npy file: ", what));
}

Result<NpyHeader> ParseNpyHeader(std::span<const std::byte> file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()),
                              file.size());
  if (text.empty()) return MalformedNpy("it is empty");
  if (text.substr(0, kMagic.size()) != kMagic || text.size() < 10) {
    return MalformedNpy(
        "it does not begin with \\x93NUMPY; np.save and np.savez write what "
        "can be read");
  }
  const auto major = static_cast<unsigned char>(text[6]);
  const auto minor = static_cast<unsigned char>(text[7]);
  if (major < 1 || major > 3 || minor != 0) {
    return MalformedNpy(StrCat("format ", static_cast<int>(major), ".",
                               static_cast<int>(minor),
                               " is not 1.0, 2.0 or 3.0"));
  }
  // The length field has 2 bytes in format 1.0, and 4 bytes since 2.0.
  const size_t length_bytes = major == 1 ? 2 : 4;
  uint32_t length = 0;
  if (text.size() < 8 + length_bytes) return MalformedNpy("it is cut off");
  std::memcpy(&length, text.data() + 8, length_bytes);
  const size_t begin = 8 + length_bytes;
  if (length > kMaxHeaderBytes || text.size() - begin < length) {
    return MalformedNpy(
        StrCat("its header of ", length, " bytes is ",
               length > kMaxHeaderBytes ? "too long" : "cut off"));
  }
  Result<NpyHeader> header = HeaderReader(text.substr(begin, length)).Read();
  if (header.ok()) header->data_offset = begin + length;
  return header;
}

std::string NpyFileStart(std::string_view descr,
                         std::span<const int64_t> shape) {
  std::string sizes;
  for (const int64_t size : shape) {
    sizes += StrCat(sizes.empty() ? "" : ", ", size);
  }
  std::string header =
      StrCat("{'descr': '", descr, "', 'fortran_order': False, 'shape': (",
             sizes, shape.size() == 1 ? "," : "", "), }");
  header.append(63 - (header.size() + 10) % 64, ' ');
  header += '\n';
  const auto length = static_cast<uint16_t>(header.size());
  std::string start = StrCat(kMagic, std::string_view("\x01\x00", 2));
  start.append(reinterpret_cast<const char*>(&length), 2);
  return start + header;
}

}  // namespace topk
