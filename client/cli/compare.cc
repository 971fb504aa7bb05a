#include "client/cli/compare.h"

#include <cstdint>
#include <span>

#include "client/cli/output.h"
#include "core/base/dtype.h"
#include "core/base/packing.h"
#include "core/base/text.h"

namespace topk::cli {
namespace {

struct Element {
  DType dtype;
  const std::string& data;
  int64_t i;

  uint64_t Bits() const {
    return ReadBits(InfoOf(dtype), std::as_bytes(std::span(data)).data(), i);
  }
  std::string Text() const { return ElementText(dtype, data, i); }
  // The bits as a hexadecimal number, the most significant byte first.
  std::string Hex() const {
    std::string hex = "0x";
    for (int byte = InfoOf(dtype).bytes; byte-- > 0;) {
      hex += HexOf(static_cast<unsigned char>(Bits() >> (8 * byte)));
    }
    return hex;
  }
};

Element At(const v1::Tensor& tensor, int64_t i) {
  return {static_cast<DType>(tensor.data_type()), tensor.data(), i};
}

// Returns element `i` and its index, e.g. "0.5 @7". Adds the element's bits if
// `other` has the same text but different bits (NaNs).
std::string Pair(const v1::TopKResponse& answer, const v1::TopKResponse& other,
                 int64_t i) {
  const Element value = At(answer.values(), i);
  const Element beside = At(other.values(), i);
  std::string text = value.Text();
  if (text == beside.Text() && value.Bits() != beside.Bits()) {
    text += StrCat(" (", value.Hex(), ")");
  }
  return StrCat(text, " @", At(answer.indices(), i).Text());
}

}  // namespace

std::string Difference(const v1::TopKResponse& server,
                       const v1::TopKResponse& ours, int axis) {
  if (server.indices().data_type() != ours.indices().data_type()) {
    const auto name = [](const v1::TopKResponse& answer) {
      return InfoOf(static_cast<DType>(answer.indices().data_type())).name;
    };
    return StrCat("the indices are ", name(server), ", here ", name(ours));
  }
  int64_t count = 1;
  for (const int64_t size : server.values().shape()) count *= size;
  int64_t inner = 1;
  for (int d = axis + 1; d < server.values().shape_size(); ++d) {
    inner *= server.values().shape(d);
  }
  const int64_t k = server.values().shape(axis);
  int64_t differ = 0;
  int64_t first = 0;
  for (int64_t i = count; i-- > 0;) {
    if (At(server.values(), i).Bits() != At(ours.values(), i).Bits() ||
        At(server.indices(), i).Bits() != At(ours.indices(), i).Bits()) {
      first = i;
      ++differ;
    }
  }
  if (differ == 0) return "";
  const int64_t slice = first / (inner * k) * inner + first % inner;
  return StrCat(differ, " of ", count, " elements differ, first ",
                SliceName(server.values(), axis, slice), " number ",
                first / inner % k, ": ", Pair(server, ours, first), ", here ",
                Pair(ours, server, first));
}

}  // namespace topk::cli
