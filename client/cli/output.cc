#include "client/cli/output.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <span>
#include <utility>

#include "core/base/dtype.h"
#include "core/base/packing.h"
#include "core/base/text.h"

namespace topk::cli {
namespace {

// Converts a floating-point number of at most 32 bits to float, without
// rounding. Also supports types that the compiler lacks.
float FromFloat(const DTypeInfo& type, uint64_t bits) {
  const int exponent_bits = type.bits - 1 - type.mantissa_bits;
  const uint64_t sign = uint64_t{1} << (type.bits - 1);
  const uint64_t hidden = uint64_t{1} << type.mantissa_bits;
  const uint64_t magnitude = bits & (sign - 1);
  const uint64_t largest = type.infinity >> (8 * type.bytes - type.bits);
  if (magnitude > largest) return NAN;
  // If the mantissa of `largest` is zero, `largest` is infinity. Otherwise the
  // type has no infinity, and `largest` is a finite number.
  float value = INFINITY;
  if (magnitude < largest || largest % hidden != 0) {
    const auto exponent = static_cast<int>(magnitude / hidden);
    const uint64_t mantissa = magnitude % hidden + (exponent > 0 ? hidden : 0);
    // The smallest positive number is 2^least, where least = 1 - bias -
    // mantissa bits. The bias is 2^(exponent bits - 1) - 1.
    const int least = 2 - (1 << (exponent_bits - 1)) - type.mantissa_bits;
    value = std::ldexp(static_cast<float>(mantissa),
                       std::max(exponent - 1, 0) + least);
  }
  return bits & sign ? -value : value;
}

// The values of NF4, from "QLoRA: Efficient Finetuning of Quantized LLMs",
// appendix E.
constexpr std::array<float, 16> kNormalFloat4 = {-1.0f,
                                                 -0.6961928009986877f,
                                                 -0.5250730514526367f,
                                                 -0.39491748809814453f,
                                                 -0.28444138169288635f,
                                                 -0.18477343022823334f,
                                                 -0.09105003625154495f,
                                                 0.0f,
                                                 0.07958029955625534f,
                                                 0.16093020141124725f,
                                                 0.24611230194568634f,
                                                 0.33791524171829224f,
                                                 0.44070982933044434f,
                                                 0.5626170039176941f,
                                                 0.7229568362236023f,
                                                 1.0f};

template <class T>
std::string Number(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(value)) return "nan";
  }
  char text[64];
  const auto [end, error] = std::to_chars(text, text + sizeof(text), value);
  return error == std::errc() ? std::string(text, end) : "?";
}

// Calls `fn` with element `i`, converted to a number type that represents it
// exactly.
template <class Fn>
auto WithNumber(const v1::Tensor& tensor, int64_t i, Fn fn) {
  const auto dtype = static_cast<DType>(tensor.data_type());
  const DTypeInfo& type = InfoOf(dtype);
  const uint64_t bits =
      ReadBits(type, std::as_bytes(std::span(tensor.data())).data(), i);
  if (dtype == DType::kNF4) return fn(kNormalFloat4[bits]);
  if (dtype == DType::kF8E8M0) {
    return fn(bits == 0xFF ? NAN
                           : std::ldexp(1.0f, static_cast<int>(bits) - 127));
  }
  if (dtype == DType::kF64) return fn(std::bit_cast<double>(bits));
  if (type.is_float) return fn(FromFloat(type, bits));
  return type.sign != 0 ? fn(SignExtended(type, bits)) : fn(bits);
}

nlohmann::json JsonNumbers(const v1::Tensor& tensor) {
  nlohmann::json list = nlohmann::json::array();
  for (int64_t i = 0; i < CountOf(tensor); ++i) {
    list.push_back(WithNumber(tensor, i, [](auto value) -> nlohmann::json {
      if constexpr (std::is_floating_point_v<decltype(value)>) {
        if (!std::isfinite(value)) return Number(value);
      }
      return value;
    }));
  }
  return list;
}

// Returns a slice's coordinates, with a colon for the axis: "[3, :, 0]".
std::string SliceName(const v1::Tensor& tensor, int axis, int64_t slice) {
  std::string name = "]";
  for (int d = tensor.shape_size(); d-- > 0;) {
    const int64_t size = d == axis ? 1 : tensor.shape(d);
    name = StrCat(d > 0 ? ", " : "[",
                  d == axis ? ":" : std::to_string(slice % size), name);
    slice /= size;
  }
  return name;
}

}  // namespace

std::string ElementText(const v1::Tensor& tensor, int64_t i) {
  return WithNumber(tensor, i, [](auto value) { return Number(value); });
}

int64_t CountOf(const v1::Tensor& tensor) {
  int64_t count = 1;
  for (const int64_t size : tensor.shape()) count *= size;
  return count;
}

void PrintTable(const v1::TopKResponse& response, int axis, int64_t max_slices,
                std::ostream& out) {
  const v1::Tensor& values = response.values();
  const v1::Tensor& indices = response.indices();
  const int64_t k = values.shape(axis);
  int64_t inner = 1;
  for (int d = axis + 1; d < values.shape_size(); ++d) inner *= values.shape(d);
  const int64_t slices = k == 0 ? 0 : CountOf(values) / k;
  const int64_t shown = std::min(slices, max_slices);

  struct Row {
    std::string name;
    std::vector<std::string> values, indices;
  };
  std::vector<Row> rows;
  size_t name_width = 0, value_width = 0, index_width = 0;
  for (int64_t slice = 0; slice < shown; ++slice) {
    Row row;
    row.name = SliceName(values, axis, slice);
    for (int64_t j = 0; j < k; ++j) {
      const int64_t at = (slice / inner * k + j) * inner + slice % inner;
      row.values.push_back(ElementText(values, at));
      row.indices.push_back(ElementText(indices, at));
      value_width = std::max(value_width, row.values.back().size());
      index_width = std::max(index_width, row.indices.back().size());
    }
    name_width = std::max(name_width, row.name.size());
    rows.push_back(std::move(row));
  }
  for (Row& row : rows) {
    out << row.name << std::string(name_width - row.name.size(), ' ');
    for (size_t j = 0; j < row.values.size(); ++j) {
      row.values[j].insert(0, value_width - row.values[j].size(), ' ');
      row.indices[j].append(index_width - row.indices[j].size(), ' ');
      out << "  " << row.values[j] << " @" << row.indices[j];
    }
    out << "\n";
  }
  if (slices == 0) {
    // An empty result is valid, but printing nothing would look like an error.
    out << "no slices: the input has no elements\n";
  }
  if (slices > shown) {
    out << "... and " << slices - shown
        << " more slices; raise --max-slices, or use --json or --out for all\n";
  }
}

nlohmann::json ToJson(const v1::TopKResponse& response) {
  nlohmann::json json;
  const v1::Tensor& any =
      response.has_values() ? response.values() : response.indices();
  json["shape"] = std::vector<int64_t>(any.shape().begin(), any.shape().end());
  const auto add = [&](const char* name, const v1::Tensor& tensor) {
    json[name] = JsonNumbers(tensor);
    json[StrCat(name, "_type")] =
        InfoOf(static_cast<DType>(tensor.data_type())).name;
  };
  if (response.has_values()) add("values", response.values());
  if (response.has_indices()) add("indices", response.indices());
  if (!response.request_id().empty()) {
    json["request_id"] = response.request_id();
  }
  const v1::ExecutionInfo& execution = response.execution();
  json["execution"] = {
      {"backend", execution.backend()},
      {"kernel", execution.kernel()},
      {"instruction_set", execution.instruction_set()},
      {"compute_nanoseconds", execution.compute_nanoseconds()}};
  return json;
}

}  // namespace topk::cli
