#include "core/dialects/checks.h"

#include <span>
#include <string>

#include "core/base/packing.h"
#include "core/base/text.h"

namespace topk {
namespace {

std::string ShapeText(const v1::Tensor& tensor) {
  std::string text = "[";
  // A hostile shape may have millions of dimensions; a message need not.
  constexpr int kShown = 8;
  for (int i = 0; i < tensor.shape_size() && i < kShown; ++i) {
    text += StrCat(i > 0 ? ", " : "", tensor.shape(i));
  }
  return text + (tensor.shape_size() > kShown ? ", ...]" : "]");
}

// Returns the type as users write it, e.g. "f32", or its number if unknown.
std::string DataTypeName(int data_type) {
  const DTypeInfo* info = FindDType(data_type);
  return info != nullptr ? std::string(info->name) : StrCat(data_type);
}

}  // namespace

Result<DType> CheckDataType(int data_type, std::span<const DType> allowed,
                            std::string_view field, std::string_view owner) {
  std::string names;
  for (const DType type : allowed) {
    if (static_cast<int>(type) == data_type) return type;
    names += StrCat(names.empty() ? "" : " ", InfoOf(type).name);
  }
  if (data_type == v1::DATA_TYPE_UNSPECIFIED) {
    return InvalidArgument("DATA_TYPE_MISSING", field,
                           StrCat(field, " is required: one of ", names));
  }
  return InvalidArgument("DATA_TYPE_NOT_ALLOWED", field,
                         StrCat("data type ", DataTypeName(data_type),
                                " is not one of ", owner, "'s: ", names));
}

Status CheckNoStrides(const v1::Tensor& tensor, std::string_view field,
                      std::string_view owner) {
  if (tensor.strides().empty()) return {};
  return InvalidArgument("STRIDES_NOT_ALLOWED", StrCat(field, ".strides"),
                         StrCat(owner,
                                " takes packed tensors; strides are "
                                "DirectML's"));
}

Result<int64_t> ReadK(const v1::KInput& k, const KRule& rule,
                      std::string_view field, std::string_view owner) {
  if (k.source_case() == v1::KInput::SOURCE_NOT_SET) {
    return InvalidArgument("K_MISSING", field, StrCat(owner, " requires k"));
  }
  if (k.has_value()) return k.value();

  const v1::Tensor& tensor = k.tensor();
  const std::string path = StrCat(field, ".tensor");
  const Result<DType> type =
      CheckDataType(tensor.data_type(), rule.data_types,
                    StrCat(path, ".data_type"), StrCat(owner, " K"));
  if (!type.ok()) return type.status();
  if (tensor.shape_size() != rule.rank ||
      (rule.rank == 1 && tensor.shape(0) != 1)) {
    return InvalidArgument(
        "K_SHAPE", StrCat(path, ".shape"),
        StrCat("K has shape ", ShapeText(tensor), "; ", owner, " takes ",
               rule.rank == 1 ? "exactly [1]" : "a scalar, []"));
  }
  if (Status s = CheckNoStrides(tensor, path, owner); !s.ok()) return s;
  if (tensor.has_shared_memory()) {
    return Unimplemented("SHARED_MEMORY_NOT_ALLOWED",
                         StrCat(path, ".shared_memory"),
                         "K lies in the request, not in shared memory");
  }
  const size_t bytes = static_cast<size_t>(InfoOf(*type).bytes);
  if (tensor.data().size() != bytes) {
    return InvalidArgument(
        "DATA_LENGTH", StrCat(path, ".data"),
        StrCat("K has ", tensor.data().size(), " bytes of data; one ",
               InfoOf(*type).name, " element has ", bytes));
  }
  return ReadInteger(InfoOf(*type),
                     std::as_bytes(std::span(tensor.data())).data());
}

void SetK(const v1::KInput& k, Outline& outline) {
  if (k.has_value()) outline.k = k.value();
  if (k.has_tensor()) outline.k_tensor = &k.tensor();
}

Status NoSuchFlag(std::string_view flag, std::string_view title) {
  return InvalidArgument("FLAG", flag, StrCat(title, " has no ", flag));
}

}  // namespace topk
