#include "core/dialects/checks.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/packing.h"
#include "core/base/text.h"

namespace topk {
namespace {

std::string ShapeText(const v1::Tensor& tensor) {
  std::string text = "[";
  // Truncate, because a hostile shape may have millions of dimensions.
  constexpr int kShown = 8;
  for (int i = 0; i < tensor.shape_size() && i < kShown; ++i) {
    text += StrCat(i > 0 ? ", " : "", tensor.shape(i));
  }
  return text + (tensor.shape_size() > kShown ? ", ...]" : "]");
}

Status CheckNoStrides(const v1::Tensor& tensor, std::string_view field,
                      std::string_view owner) {
  if (tensor.strides().empty()) return {};
  return InvalidArgument(
      "STRIDES_NOT_ALLOWED", StrCat(field, ".strides"),
      StrCat(owner, " does not allow strides; only DirectML does"));
}

}  // namespace

Result<DType> CheckDataType(int data_type, std::span<const DType> allowed,
                            std::string_view field, std::string_view owner) {
  const auto type = static_cast<DType>(data_type);
  if (std::ranges::find(allowed, type) != allowed.end()) return type;
  std::string names;
  for (const DType each : allowed) {
    names += StrCat(names.empty() ? "" : ", ", InfoOf(each).name);
  }
  if (data_type == v1::DATA_TYPE_UNSPECIFIED) {
    return InvalidArgument(
        "DATA_TYPE_MISSING", field,
        StrCat("the data type is required; ", owner, " allows ", names));
  }
  return InvalidArgument("DATA_TYPE_NOT_ALLOWED", field,
                         StrCat("data type ", TypeName(data_type),
                                " is not allowed; ", owner, " allows ", names));
}

Result<DType> CheckTensor(const v1::Tensor& tensor,
                          const OperatorVersion& version) {
  const Result<DType> type = CheckDataType(
      tensor.data_type(), version.data_types, "tensor.data_type", version.name);
  if (!type.ok()) return type;
  const Status strides = CheckNoStrides(tensor, "tensor", version.name);
  return strides.ok() ? type : strides;
}

Result<int64_t> ReadK(const v1::KInput& k, std::span<const DType> types,
                      int rank, std::string_view field,
                      std::string_view owner) {
  if (k.source_case() == v1::KInput::SOURCE_NOT_SET) {
    return MissingK(field, owner);
  }
  if (k.has_value()) return k.value();

  const v1::Tensor& tensor = k.tensor();
  const std::string path = StrCat(field, ".tensor");
  const Result<DType> type =
      CheckDataType(tensor.data_type(), types, StrCat(path, ".data_type"),
                    StrCat("K of ", owner));
  if (!type.ok()) return type.status();
  if (tensor.shape_size() != rank || (rank == 1 && tensor.shape(0) != 1)) {
    return InvalidArgument(
        "K_SHAPE", StrCat(path, ".shape"),
        StrCat("K has shape ", ShapeText(tensor), "; ", owner, " requires ",
               rank == 1 ? "[1]" : "a scalar, []"));
  }
  if (Status s = CheckNoStrides(tensor, path, owner); !s.ok()) return s;
  if (const bool cuda = tensor.has_cuda_memory();
      cuda || tensor.has_shared_memory()) {
    return Unimplemented(
        cuda ? "CUDA_MEMORY_NOT_ALLOWED" : "SHARED_MEMORY_NOT_ALLOWED",
        StrCat(path, cuda ? ".cuda_memory" : ".shared_memory"),
        "K must be in the request");
  }
  const size_t bytes = static_cast<size_t>(InfoOf(*type).bytes);
  if (tensor.data().size() != bytes) {
    return InvalidArgument(
        "DATA_LENGTH", StrCat(path, ".data"),
        StrCat("K has ", tensor.data().size(), " bytes of data; one ",
               InfoOf(*type).name, " element has ", bytes));
  }
  const std::byte* const data = std::as_bytes(std::span(tensor.data())).data();
  const uint64_t bits = ReadBits(InfoOf(*type), data, 0);
  if (InfoOf(*type).sign != 0) return SignExtended(InfoOf(*type), bits);
  if (std::in_range<int64_t>(bits)) return static_cast<int64_t>(bits);
  return InvalidArgument(
      "K_EXCEEDS_DIMENSION", field,
      StrCat("k = ", bits, " exceeds the maximum size of a dimension"));
}

Status MissingK(std::string_view field, std::string_view owner) {
  return InvalidArgument("K_MISSING", field, StrCat(owner, " requires k"));
}

Status NoSuchAttribute(std::string_view dialect, std::string_view attribute,
                       const OperatorVersion& version, int since) {
  return InvalidArgument("ATTRIBUTE_NOT_IN_VERSION",
                         StrCat(dialect, ".", attribute),
                         StrCat(version.name, " has no attribute ", attribute,
                                "; version ", since, " added it"));
}

}  // namespace topk
