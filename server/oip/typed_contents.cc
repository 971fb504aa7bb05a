#include "server/oip/typed_contents.h"

#include <cstdint>
#include <string_view>

#include "core/base/text.h"
#include "server/oip/text.h"

namespace topk {
namespace {

using inference::InferTensorContents;

// Appends the numbers as elements of a type that may be smaller.
template <class Element, class Numbers>
Status Append(const Numbers& numbers, std::string_view type,
              std::string& bytes) {
  bytes.reserve(static_cast<size_t>(numbers.size()) * sizeof(Element));
  for (const auto number : numbers) {
    const auto element = static_cast<Element>(number);
    if constexpr (sizeof(Element) < sizeof(number)) {
      if (element != number) {
        return InvalidArgument("CONTENTS_RANGE", "inputs.contents",
                               StrCat(number, " is no ", type));
      }
    }
    bytes.append(reinterpret_cast<const char*>(&element), sizeof(element));
  }
  return {};
}

// How many numbers there are in all fields.
int64_t CountOf(const InferTensorContents& contents) {
  return int64_t{contents.bool_contents_size()} + contents.int_contents_size() +
         contents.int64_contents_size() + contents.uint_contents_size() +
         contents.uint64_contents_size() + contents.fp32_contents_size() +
         contents.fp64_contents_size() + contents.bytes_contents_size();
}

// Appends the field that belongs to the type; `count` = how many it has.
Status AppendField(const InferTensorContents& contents, std::string_view type,
                   int64_t& count, std::string& bytes) {
  const auto append = [&]<class Element>(const auto& numbers, Element) {
    count = numbers.size();
    return Append<Element>(numbers, type, bytes);
  };
  if (type == "FP32") return append(contents.fp32_contents(), float{});
  if (type == "FP64") return append(contents.fp64_contents(), double{});
  if (type == "INT8") return append(contents.int_contents(), int8_t{});
  if (type == "INT16") return append(contents.int_contents(), int16_t{});
  if (type == "INT32") return append(contents.int_contents(), int32_t{});
  if (type == "INT64") return append(contents.int64_contents(), int64_t{});
  if (type == "UINT8") return append(contents.uint_contents(), uint8_t{});
  if (type == "UINT16") return append(contents.uint_contents(), uint16_t{});
  if (type == "UINT32") return append(contents.uint_contents(), uint32_t{});
  if (type == "UINT64") return append(contents.uint64_contents(), uint64_t{});
  return {};
}

}  // namespace

Result<std::string> BytesOf(
    const inference::ModelInferRequest::InferInputTensor& input,
    const std::string& model) {
  std::string bytes;
  int64_t count = 0;
  if (Status s = AppendField(input.contents(), input.datatype(), count, bytes);
      !s.ok()) {
    return s;
  }
  if (CountOf(input.contents()) == count) return bytes;
  return InvalidArgument(
      "CONTENTS_TYPE", "inputs.contents",
      StrCat("unexpected explicit tensor data for input tensor ",
             Tick(input.name()), " for model ", Tick(model), ": datatype ",
             Quote(input.datatype()),
             " must be sent in its own field of InferTensorContents, or in "
             "raw_input_contents"));
}

}  // namespace topk
