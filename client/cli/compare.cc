#include "client/cli/compare.h"

#include <cstdint>

#include "client/cli/output.h"
#include "core/base/dtype.h"
#include "core/base/text.h"

namespace topk::cli {
namespace {

// Returns the bits as a hexadecimal number, the most significant byte first.
std::string HexText(const v1::Tensor& tensor, int64_t i) {
  std::string hex = "0x";
  for (int byte = InfoOf(static_cast<DType>(tensor.data_type())).bytes;
       byte-- > 0;) {
    hex +=
        HexOf(static_cast<unsigned char>(ElementBits(tensor, i) >> (8 * byte)));
  }
  return hex;
}

bool AreEqual(const v1::Tensor& a, const v1::Tensor& b, int64_t i) {
  return ElementBits(a, i) == ElementBits(b, i);
}

// Returns element `i` and its index, e.g. "0.5 @7". Appends the bits if element
// `i` of `other` has the same text but different bits, e.g. for NaNs.
std::string Pair(const v1::TopKResponse& answer, const v1::TopKResponse& other,
                 int64_t i) {
  const v1::Tensor& values = answer.values();
  std::string text = ElementText(values, i);
  if (text == ElementText(other.values(), i) &&
      !AreEqual(values, other.values(), i)) {
    text += StrCat(" (", HexText(values, i), ")");
  }
  return StrCat(text, " @", ElementText(answer.indices(), i));
}

}  // namespace

std::string Difference(const v1::TopKResponse& server,
                       const v1::TopKResponse& ours, int axis) {
  if (server.indices().data_type() != ours.indices().data_type()) {
    const auto name = [](const v1::TopKResponse& answer) {
      return InfoOf(static_cast<DType>(answer.indices().data_type())).name;
    };
    return StrCat("the indices are ", name(server), ", locally ", name(ours));
  }
  const int64_t count = CountOf(server.values());
  int64_t inner = 1;
  for (int d = axis + 1; d < server.values().shape_size(); ++d) {
    inner *= server.values().shape(d);
  }
  const int64_t k = server.values().shape(axis);
  int64_t differ = 0;
  int64_t first = 0;
  for (int64_t i = count; i-- > 0;) {
    if (!AreEqual(server.values(), ours.values(), i) ||
        !AreEqual(server.indices(), ours.indices(), i)) {
      first = i;
      ++differ;
    }
  }
  if (differ == 0) return "";
  const int64_t slice = first / (inner * k) * inner + first % inner;
  return StrCat(differ, " of ", count,
                " elements differ; the first is element ", first / inner % k,
                " of slice ", SliceName(server.values(), axis, slice),
                ": server ", Pair(server, ours, first), ", local ",
                Pair(ours, server, first));
}

}  // namespace topk::cli
