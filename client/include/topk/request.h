// Requests that borrow the caller's tensors, and typed views of responses.
#pragma once

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "topk/status.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// A C++ type for tensor elements: float, double, or an integer of 8 to 64
/// bits.
template <class T>
concept Element = std::same_as<T, float> || std::same_as<T, double> ||
    (std::integral<T> && !std::same_as<T, bool> && sizeof(T) <= 8);

/// The DataType of elements of type `T`.
template <Element T>
constexpr v1::DataType kDataTypeOf =
    std::same_as<T, float> ? v1::DATA_TYPE_F32
    : std::same_as<T, double>
        ? v1::DATA_TYPE_F64
        : static_cast<v1::DataType>((std::signed_integral<T> ? 5 : 9) +
                                    std::countr_zero(sizeof(T)));
static_assert(kDataTypeOf<int8_t> == v1::DATA_TYPE_I8 &&
              kDataTypeOf<uint64_t> == v1::DATA_TYPE_U64);

/// The elements of a tensor, in row-major order, borrowed from the caller.
struct Elements {
  /// Borrows a vector, an array or a span, but not a temporary vector or array.
  /// Implicit so that arrays can be passed as arguments.
  template <std::ranges::contiguous_range Array>
  requires std::ranges::borrowed_range<Array> &&
      Element<std::ranges::range_value_t<Array>>
      Elements(Array&& array)  // NOLINT
      : type(kDataTypeOf<std::ranges::range_value_t<Array>>),
        bytes(std::as_bytes(std::span(array))) {}
  /// Borrows little-endian bytes, for types that C++ lacks: bf16, f16, f8e4m3.
  Elements(v1::DataType data_type, std::span<const std::byte> data)
      : type(data_type), bytes(data) {}

  v1::DataType type;
  std::span<const std::byte> bytes;
};

/// The attributes of ONNX TopK, version 24.
struct OnnxAttributes {
  int64_t axis = -1;
  bool largest = true;
  bool sorted = true;
};

/// The attributes of OpenVINO TopK, version 11.
struct OpenVinoAttributes {
  int64_t axis = -1;
  bool largest = true;
  /// "value", "index" or "none".
  std::string sort = "value";
  bool stable = false;
  /// "i32" or "i64".
  std::string index_type = "i32";
};

/// The attributes of DirectML TOP_K1.
struct DirectMLAttributes {
  /// A negative axis counts from the last dimension.
  int64_t axis = -1;
  bool largest = true;
};

/// A request for one TopK computation. The tensor is not copied, and must
/// outlive all calls that use the request.
class Request {
 public:
  /// Returns a request for k elements of each slice along an axis. Among equal
  /// elements, those with the lowest indices are selected and come first. The
  /// server checks the shape and the attributes.
  static Request Onnx(Elements tensor, const std::vector<int64_t>& shape,
                      int64_t k, const OnnxAttributes& attributes = {});
  static Request OpenVino(Elements tensor, const std::vector<int64_t>& shape,
                          int64_t k, const OpenVinoAttributes& attributes = {});
  static Request DirectML(Elements tensor, const std::vector<int64_t>& shape,
                          int64_t k, const DirectMLAttributes& attributes = {});

  /// Wraps a message. `tensor` is the tensor's data. Omit `tensor` if the
  /// message contains the data or refers to shared memory.
  explicit Request(v1::TopKRequest message,
                   std::optional<std::span<const std::byte>> tensor = {})
      : message_(std::move(message)), tensor_(tensor) {}

  /// Returns the message, e.g. to set fields that have no setter here.
  v1::TopKRequest& message() { return message_; }
  const v1::TopKRequest& message() const { return message_; }
  std::optional<std::span<const std::byte>> tensor() const { return tensor_; }

 private:
  v1::TopKRequest message_;
  std::optional<std::span<const std::byte>> tensor_;
};

/// The response to a request.
class Response {
 public:
  explicit Response(v1::TopKResponse message) : message_(std::move(message)) {}

  /// The shape of values and indices.
  std::span<const int64_t> shape() const;
  /// Returns the values in row-major order. The span is valid as long as this
  /// object. Returns INVALID_ARGUMENT if the values are not of type `T`, not in
  /// the response, or strided.
  template <Element T>
  Result<std::span<const T>> values() const {
    return View<T>("values", message_.values());
  }
  /// Like values(), but for the indices. `T` is int64_t for ONNX, int32_t for
  /// OpenVINO unless `index_type` is "i64", and uint32_t for DirectML.
  template <Element T = int64_t>
  Result<std::span<const T>> indices() const {
    return View<T>("indices", message_.indices());
  }
  /// Returns the values, of any type, as little-endian bytes.
  std::span<const std::byte> value_bytes() const {
    return std::as_bytes(std::span(message_.values().data()));
  }

  const v1::TopKResponse& message() const { return message_; }

 private:
  template <class T>
  static Result<std::span<const T>> View(std::string_view output,
                                         const v1::Tensor& tensor) {
    if (Status s = CheckView(output, tensor, kDataTypeOf<T>); !s.ok()) return s;
    // The data may be longer: DirectML's outputs can have padding at the end.
    size_t count = 1;
    for (const int64_t size : tensor.shape())
      count *= static_cast<size_t>(size);
    return std::span(reinterpret_cast<const T*>(tensor.data().data()),
                     std::min(count, tensor.data().size() / sizeof(T)));
  }
  static Status CheckView(std::string_view output, const v1::Tensor& tensor,
                          v1::DataType type);

  v1::TopKResponse message_;
};

}  // namespace topk
