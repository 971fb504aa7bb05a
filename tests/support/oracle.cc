#include "tests/support/oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

namespace topk::testing {
namespace {

static_assert(std::numeric_limits<long double>::digits >= 64,
              "the oracle's numbers must hold 64-bit integers");

// Decodes a float with a sign bit, `e` exponent bits and `m` mantissa bits. The
// highest exponent means infinity or NaN. A bias of 0 selects IEEE's bias.
Number ReadFloat(uint64_t bits, int e, int m, int bias = 0) {
  const uint64_t mantissa = bits & ((uint64_t{1} << m) - 1);
  const uint64_t exponent = bits >> m & ((uint64_t{1} << e) - 1);
  const uint64_t top = (uint64_t{1} << e) - 1;
  if (bias == 0) bias = (1 << (e - 1)) - 1;
  if (exponent == top && mantissa != 0) return {true, 0};
  long double value;
  if (exponent == top) {
    value = std::numeric_limits<long double>::infinity();
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<long double>(mantissa), 1 - bias - m);
  } else {
    value = std::ldexp(static_cast<long double>(mantissa + (uint64_t{1} << m)),
                       static_cast<int>(exponent) - bias - m);
  }
  return {false, bits >> (e + m) ? -value : value};
}

using Sizes = std::vector<int64_t>;

Sizes PackedStrides(const Sizes& shape) {
  Sizes strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * shape[i];
  }
  return strides;
}

size_t OffsetOf(const Sizes& at, const Sizes& strides) {
  return static_cast<size_t>(
      std::inner_product(at.begin(), at.end(), strides.begin(), int64_t{0}));
}

// Returns the indices of the k best numbers. Equal numbers rank by index.
std::vector<int64_t> Best(const std::vector<Number>& numbers,
                          const Selection& s) {
  std::vector<int64_t> order(numbers.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) {
    if (s.largest) std::swap(a, b);
    return numbers[static_cast<size_t>(a)] < numbers[static_cast<size_t>(b)];
  });
  order.resize(static_cast<size_t>(s.k));
  if (s.by_index) std::ranges::sort(order);
  return order;
}

// Returns a tensor of zeros for an output.
v1::Tensor Output(v1::DataType type, const Sizes& shape,
                  const v1::TensorDesc& desc) {
  v1::Tensor tensor;
  tensor.set_data_type(type);
  tensor.mutable_shape()->Add(shape.begin(), shape.end());
  *tensor.mutable_strides() = desc.strides();
  auto bytes = static_cast<size_t>(desc.total_tensor_size_bytes());
  if (bytes == 0 && desc.strides().empty()) {
    bytes = DataBytes(type, static_cast<size_t>(std::accumulate(
                                shape.begin(), shape.end(), int64_t{1},
                                std::multiplies<>())));
  } else if (bytes == 0) {
    Sizes last = shape;
    for (int64_t& size : last) --size;
    const Sizes strides(desc.strides().begin(), desc.strides().end());
    bytes = (DataBytes(type, OffsetOf(last, strides) + 1) + 3) / 4 * 4;
  }
  tensor.set_data(std::string(bytes, '\0'));
  return tensor;
}

int64_t KOf(const v1::KInput& k) {
  if (!k.has_tensor()) return k.value();
  return static_cast<int64_t>(
      ReadNumber(k.tensor().data_type(), k.tensor().data(), 0).value);
}

}  // namespace

void Select(const Selection& s, const std::string& tensor, std::string* values,
            std::string* indices) {
  if (std::ranges::count(s.shape, 0) > 0) return;
  const auto axis = static_cast<size_t>(s.axis);
  Sizes outputs = s.shape;
  outputs.at(axis) = s.k;
  const auto strides_of = [](const Sizes& strides, const Sizes& shape) {
    return strides.empty() ? PackedStrides(shape) : strides;
  };
  const Sizes strides = strides_of(s.strides, s.shape);
  const Sizes value_strides = strides_of(s.value_strides, outputs);
  const Sizes index_strides = strides_of(s.index_strides, outputs);
  Sizes at(s.shape.size(), 0);  // the coordinates of a slice
  for (;;) {
    const auto place = [&](const Sizes& steps, int64_t i) {
      return OffsetOf(at, steps) + static_cast<size_t>(i * steps[axis]);
    };
    std::vector<Number> numbers;
    for (int64_t i = 0; i < s.shape[axis]; ++i) {
      numbers.push_back(ReadNumber(s.type, tensor, place(strides, i)));
    }
    int64_t j = 0;
    for (const int64_t i : Best(numbers, s)) {
      if (values != nullptr) {
        WriteBits(s.type, place(value_strides, j),
                  ReadBits(s.type, tensor, place(strides, i)), *values);
      }
      if (indices != nullptr) {
        WriteBits(s.index_type, place(index_strides, j),
                  static_cast<uint64_t>(i + s.index_offset), *indices);
      }
      ++j;
    }
    size_t d = at.size();
    while (d > 0 && (d - 1 == axis || ++at[d - 1] == s.shape[d - 1])) {
      at[--d] = 0;
    }
    if (d == 0) return;
  }
}

v1::TopKResponse Oracle(const v1::TopKRequest& request) {
  const v1::Tensor& tensor = request.tensor();
  Selection s;
  s.type = tensor.data_type();
  s.shape.assign(tensor.shape().begin(), tensor.shape().end());
  s.strides.assign(tensor.strides().begin(), tensor.strides().end());
  s.index_offset = request.index_offset();
  v1::TensorDesc value_desc;
  v1::TensorDesc index_desc;
  if (request.has_onnx()) {
    const v1::OnnxTopK& a = request.onnx();
    s.axis = a.has_axis() ? a.axis() : -1;
    s.k = KOf(a.k());
    s.largest = !a.has_largest() || a.largest() == 1;
  } else if (request.has_openvino()) {
    const v1::OpenVinoTopK& a = request.openvino();
    s.axis = a.axis();
    s.k = KOf(a.k());
    s.largest = a.mode() == "max";
    s.by_index = a.sort() == "index";
    s.index_type =
        a.index_element_type() == "i64" ? v1::DATA_TYPE_I64 : v1::DATA_TYPE_I32;
  } else if (request.has_directml()) {
    const v1::DirectMLTopK& a = request.directml();
    s.axis = a.axis();
    s.k = a.k();
    s.largest = a.axis_direction() != v1::AXIS_DIRECTION_INCREASING;
    value_desc = a.output_value();
    index_desc = a.output_index();
    s.index_type = index_desc.data_type() == 0 ? v1::DATA_TYPE_U32
                                               : index_desc.data_type();
  } else {
    throw std::invalid_argument("the oracle does not know the dialect");
  }
  if (s.axis < 0) s.axis += static_cast<int64_t>(s.shape.size());
  s.value_strides.assign(value_desc.strides().begin(),
                         value_desc.strides().end());
  s.index_strides.assign(index_desc.strides().begin(),
                         index_desc.strides().end());
  Sizes shape = s.shape;
  shape.at(static_cast<size_t>(s.axis)) = s.k;

  v1::TopKResponse response;
  std::string* values = nullptr;
  std::string* indices = nullptr;
  const auto selection = request.output().selection();
  if (selection != v1::OUTPUT_SELECTION_INDICES_ONLY) {
    *response.mutable_values() = Output(s.type, shape, value_desc);
    values = response.mutable_values()->mutable_data();
  }
  if (selection != v1::OUTPUT_SELECTION_VALUES_ONLY) {
    *response.mutable_indices() = Output(s.index_type, shape, index_desc);
    indices = response.mutable_indices()->mutable_data();
  }
  Select(s, tensor.data(), values, indices);
  response.set_request_id(request.request_id());
  return response;
}

std::string Comparable(v1::TopKResponse response) {
  response.clear_execution();
  return response.SerializeAsString();
}

size_t ElementBits(int data_type) {
  // Indexed by the number of the type in tensor.proto.
  constexpr size_t kBits[] = {0,  16, 16, 32, 64, 8, 16, 32, 64, 8, 16, 32,
                              64, 1,  2,  3,  4,  6, 4,  4,  4,  8, 8,  8};
  const auto number = static_cast<size_t>(data_type);
  return number < std::size(kBits) ? kBits[number] : 0;
}

size_t DataBytes(int data_type, size_t count) {
  return (count * ElementBits(data_type) + 7) / 8;
}

namespace {

// From "QLoRA: Efficient Finetuning of Quantized LLMs", appendix E.
constexpr long double kNf4[] = {-1.0L,
                                -0.6961928009986877L,
                                -0.5250730514526367L,
                                -0.39491748809814453L,
                                -0.28444138169288635L,
                                -0.18477343022823334L,
                                -0.09105003625154495L,
                                0.0L,
                                0.07958029955625534L,
                                0.16093020141124725L,
                                0.24611230194568634L,
                                0.33791524171829224L,
                                0.44070982933044434L,
                                0.5626170039176941L,
                                0.7229568362236023L,
                                1.0L};

// Calls `fn(b, byte, bit)`: bit b of element i is bit `bit` of byte `byte`.
template <class Fn>
void ForEachBit(int data_type, size_t i, Fn fn) {
  const size_t width = ElementBits(data_type);
  for (size_t b = 0; b < width; ++b) {
    const size_t at = i * width + b;
    fn(b, at / 8, data_type == v1::DATA_TYPE_U1 ? 7 - at % 8 : at % 8);
  }
}

}  // namespace

uint64_t ReadBits(int data_type, const std::string& data, size_t i) {
  uint64_t bits = 0;
  if (const size_t bytes = ElementBits(data_type) / 8; bytes > 0) {
    (void)data.at((i + 1) * bytes - 1);
    data.copy(reinterpret_cast<char*>(&bits), bytes, i * bytes);
    return bits;
  }
  ForEachBit(data_type, i, [&](size_t b, size_t byte, size_t bit) {
    const auto value = static_cast<unsigned char>(data.at(byte));
    bits |= uint64_t{value >> bit & 1u} << b;
  });
  return bits;
}

void WriteBits(int data_type, size_t i, uint64_t bits, std::string& data) {
  if (const size_t bytes = ElementBits(data_type) / 8; bytes > 0) {
    (void)data.at((i + 1) * bytes - 1);
    data.replace(i * bytes, bytes, reinterpret_cast<char*>(&bits), bytes);
    return;
  }
  ForEachBit(data_type, i, [&](size_t b, size_t byte, size_t bit) {
    const auto mask = 1u << bit;
    const auto value = static_cast<unsigned char>(data.at(byte));
    data[byte] =
        static_cast<char>(bits >> b & 1 ? value | mask : value & ~mask);
  });
}

Number NumberOf(v1::DataType type, uint64_t bits) {
  switch (type) {
    case v1::DATA_TYPE_F16:
      return ReadFloat(bits, 5, 10);
    case v1::DATA_TYPE_BF16:
      return ReadFloat(bits, 8, 7);
    case v1::DATA_TYPE_F32:
      return ReadFloat(bits, 8, 23);
    case v1::DATA_TYPE_F64:
      return ReadFloat(bits, 11, 52);
    case v1::DATA_TYPE_F8E5M2:
      return ReadFloat(bits, 5, 2);
    case v1::DATA_TYPE_F8E4M3:  // numbers may have the highest exponent
      if ((bits & 0x7F) == 0x7F) return {true, 0};
      return ReadFloat((bits & 0x80) << 1 | (bits & 0x7F), 5, 3, 7);
    case v1::DATA_TYPE_F4E2M1:
      return ReadFloat((bits & 8) << 1 | (bits & 7), 3, 1, 1);
    case v1::DATA_TYPE_F8E8M0:
      if (bits == 0xFF) return {true, 0};
      return {false, std::ldexp(1.0L, static_cast<int>(bits) - 127)};
    case v1::DATA_TYPE_NF4:
      return {false, kNf4[bits & 15]};
    case v1::DATA_TYPE_I4:
    case v1::DATA_TYPE_I8:
    case v1::DATA_TYPE_I16:
    case v1::DATA_TYPE_I32:
    case v1::DATA_TYPE_I64: {
      const size_t unused = 64 - ElementBits(type);
      return {false, static_cast<long double>(
                         static_cast<int64_t>(bits << unused) >> unused)};
    }
    default:
      return {false, static_cast<long double>(bits)};
  }
}

Number ReadNumber(v1::DataType type, const std::string& data, size_t i) {
  return NumberOf(type, ReadBits(type, data, i));
}

}  // namespace topk::testing
