#include "tests/support/generators.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "tests/support/oracle.h"

namespace topk::testing {
namespace {

using Types = std::vector<v1::DataType>;

template <class T>
T OneOf(Random& random, const std::vector<T>& choices) {
  return choices[static_cast<size_t>(
      Pick(random, 0, static_cast<int64_t>(choices.size()) - 1))];
}

bool Chance(Random& random, int one_in) { return Pick(random, 1, one_in) == 1; }

// Returns the bits of -inf, -1, -0, 0, 1, inf, and three NaNs.
std::vector<uint64_t> SpecialFloats(int exponent_bits, int mantissa_bits) {
  const uint64_t sign = uint64_t{1} << (exponent_bits + mantissa_bits);
  const uint64_t quiet = uint64_t{1} << (mantissa_bits - 1);
  const uint64_t one = ((uint64_t{1} << (exponent_bits - 1)) - 1)
                       << mantissa_bits;
  const uint64_t inf = sign - (uint64_t{1} << mantissa_bits);
  return {sign | inf, sign | one, sign,        0,
          one,        inf,        inf | quiet, sign | inf | quiet | 1,
          inf | 1};
}

// Returns the bits of special values of a type.
std::vector<uint64_t> SpecialBits(v1::DataType type) {
  switch (type) {
    case v1::DATA_TYPE_F16:
      return SpecialFloats(5, 10);
    case v1::DATA_TYPE_BF16:
      return SpecialFloats(8, 7);
    case v1::DATA_TYPE_F8E4M3:  // a type without infinity
      return {0xFE, 0xB8, 0x80, 0, 0x38, 0x7E, 0x7F, 0xFF};
    case v1::DATA_TYPE_F8E5M2:
      return SpecialFloats(5, 2);
    case v1::DATA_TYPE_F32:
      return SpecialFloats(8, 23);
    case v1::DATA_TYPE_F64:
      return SpecialFloats(11, 52);
    default: {  // extremes and neighbors of zero, for every width
      std::vector<uint64_t> specials = {0, 1, ~uint64_t{0}, 0x8080808080808080};
      for (const int width : {4, 8, 16, 32, 64}) {
        specials.push_back(uint64_t{1} << (width - 1));
        specials.push_back((uint64_t{1} << (width - 1)) - 1);
      }
      return specials;
    }
  }
}

std::vector<int64_t> RandomShape(Random& random, int64_t low, int64_t high) {
  const int64_t rank = Pick(random, low, high);
  if (rank == 1 && Chance(random, 5)) return {Pick(random, 1, 3000)};
  const int64_t limit = rank == 1 ? 70 : rank == 2 ? 24 : rank < 5 ? 7 : 3;
  std::vector<int64_t> shape;
  for (int64_t i = 0; i < rank; ++i) shape.push_back(Pick(random, 1, limit));
  return shape;
}

int64_t RandomK(Random& random, int64_t n) {
  return OneOf<int64_t>(random, {1, n, Pick(random, 1, n)});
}

void SetTensor(Random& random, v1::DataType type,
               const std::vector<int64_t>& shape, v1::Tensor& tensor) {
  tensor.set_data_type(type);
  tensor.mutable_shape()->Add(shape.begin(), shape.end());
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  tensor.set_data(RandomData(random, type, count));
}

void SetKTensor(v1::DataType type, bool scalar, int64_t k, v1::KInput& input) {
  v1::Tensor& tensor = *input.mutable_tensor();
  tensor.set_data_type(type);
  if (!scalar) tensor.add_shape(1);
  tensor.set_data(std::string(DataBytes(type, 1), '\0'));
  WriteBits(type, 0, static_cast<uint64_t>(k), *tensor.mutable_data());
}

void MakeOnnx(Random& random, v1::TopKRequest& request) {
  const int version = OneOf<int>(random, {1, 10, 11, 24});
  request.mutable_spec()->set_dialect(v1::DIALECT_ONNX);
  request.mutable_spec()->set_version(version);
  const Types types = AllowedTypes(v1::DIALECT_ONNX, version);
  std::vector<int64_t> shape = RandomShape(random, 1, 5);
  const auto rank = static_cast<int64_t>(shape.size());
  v1::OnnxTopK& onnx = *request.mutable_onnx();
  int64_t axis = -1;
  if (!Chance(random, 3)) onnx.set_axis(axis = Pick(random, -rank, rank - 1));
  const auto dimension = static_cast<size_t>(axis < 0 ? axis + rank : axis);
  if (Chance(random, 30)) {  // makes the outputs empty
    const auto zero = static_cast<size_t>(Pick(random, 0, rank - 1));
    if (zero != dimension) shape[zero] = 0;
  }
  SetTensor(random, OneOf(random, types), shape, *request.mutable_tensor());
  const int64_t k = RandomK(random, shape[dimension]);
  if (version > 1 && Chance(random, 2)) {
    SetKTensor(v1::DATA_TYPE_I64, false, k, *onnx.mutable_k());
  } else {
    onnx.mutable_k()->set_value(k);
  }
  if (version < 11) return;
  if (Chance(random, 2)) onnx.set_largest(Pick(random, 0, 1));
  if (Chance(random, 2)) onnx.set_sorted(Pick(random, 0, 1));
}

void MakeOpenVino(Random& random, v1::TopKRequest& request) {
  const int version = OneOf<int>(random, {1, 3, 11});
  request.mutable_spec()->set_dialect(v1::DIALECT_OPENVINO);
  request.mutable_spec()->set_version(version);
  Types types = AllowedTypes(v1::DIALECT_OPENVINO, version);
  const bool small = Chance(random, 2);
  std::erase_if(types,
                [&](auto t) { return small != (t > v1::DATA_TYPE_U64); });
  const std::vector<int64_t> shape = RandomShape(random, 1, 5);
  const auto rank = static_cast<int64_t>(shape.size());
  v1::OpenVinoTopK& openvino = *request.mutable_openvino();
  const int64_t axis = Pick(random, -rank, rank - 1);
  openvino.set_axis(axis);
  SetTensor(random, OneOf(random, types), shape, *request.mutable_tensor());
  const int64_t k = RandomK(
      random, shape[static_cast<size_t>(axis < 0 ? axis + rank : axis)]);
  if (k < 128 && Chance(random, 2)) {
    Types k_types = {v1::DATA_TYPE_I8, v1::DATA_TYPE_I32, v1::DATA_TYPE_I64};
    if (version > 1) {
      k_types.insert(k_types.end(),
                     {v1::DATA_TYPE_I16, v1::DATA_TYPE_U8, v1::DATA_TYPE_U16,
                      v1::DATA_TYPE_U32, v1::DATA_TYPE_U64});
      if (k < 2) k_types.push_back(v1::DATA_TYPE_U1);
      if (k < 4) k_types.push_back(v1::DATA_TYPE_U2);
      if (k < 8) k_types.push_back(v1::DATA_TYPE_U3);
      if (k < 8) k_types.push_back(v1::DATA_TYPE_I4);
      if (k < 16) k_types.push_back(v1::DATA_TYPE_U4);
      if (k < 64) k_types.push_back(v1::DATA_TYPE_U6);
    }
    SetKTensor(OneOf(random, k_types), true, k, *openvino.mutable_k());
  } else {
    openvino.mutable_k()->set_value(k);
  }
  openvino.set_mode(OneOf<std::string>(random, {"min", "max"}));
  openvino.set_sort(OneOf<std::string>(random, {"value", "index", "none"}));
  if (version > 1 && Chance(random, 2)) {
    openvino.set_index_element_type(OneOf<std::string>(random, {"i32", "i64"}));
  }
  if (version == 11 && openvino.sort() != "none" && Chance(random, 2)) {
    openvino.set_stable(Chance(random, 2));
  }
}

// Returns strides without overlaps, with random dimension order and padding.
std::vector<int64_t> RandomStrides(Random& random,
                                   const std::vector<int64_t>& shape) {
  std::vector<size_t> order(shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  std::vector<int64_t> strides(shape.size());
  int64_t step = 1;
  for (const size_t d : order) {
    strides[d] = step;
    step = step * shape[d] + Pick(random, 0, 2);
  }
  return strides;
}

void DescribeOutput(Random& random, const std::vector<int64_t>& shape,
                    v1::TensorDesc& desc) {
  if (Chance(random, 2)) {
    desc.mutable_sizes()->Add(shape.begin(), shape.end());
  }
  if (Chance(random, 2)) {
    const auto strides = RandomStrides(random, shape);
    desc.mutable_strides()->Add(strides.begin(), strides.end());
  }
  if (Chance(random, 4)) {  // larger than any generated tensor
    desc.set_total_tensor_size_bytes(200000 + 4 * Pick(random, 0, 9));
  }
}

void MakeDirectML(Random& random, v1::TopKRequest& request) {
  const int version = static_cast<int>(Pick(random, 0, 1));
  request.mutable_spec()->set_dialect(v1::DIALECT_DIRECTML);
  request.mutable_spec()->set_version(version);
  v1::DirectMLTopK& directml = *request.mutable_directml();
  std::vector<int> levels = {0,      0x2100, 0x3000, 0x3100, 0x4000,
                             0x4100, 0x5000, 0x5100, 0x6000, 0x6400};
  if (version == 0) levels.insert(levels.end(), {0x1000, 0x2000});
  const int level = OneOf(random, levels);
  directml.set_feature_level(static_cast<v1::FeatureLevel>(level));
  const bool newest = level == 0 || level >= 0x5000;
  const Types types =
      AllowedTypes(v1::DIALECT_DIRECTML, version, level == 0 ? 0x6400 : level);
  const bool old = level != 0 && level < 0x3100;
  const std::vector<int64_t> shape =
      old ? RandomShape(random, 4, 4) : RandomShape(random, 1, 8);
  const auto rank = static_cast<int64_t>(shape.size());
  const v1::DataType type = OneOf(random, types);
  v1::Tensor& tensor = *request.mutable_tensor();
  SetTensor(random, type, shape, tensor);
  if (Chance(random, 2)) {
    std::vector<int64_t> strides = RandomStrides(random, shape);
    for (int64_t& stride : strides) {
      if (Chance(random, 6)) stride = 0;  // repeats elements along a dimension
    }
    int64_t count = 1;
    for (size_t i = 0; i < shape.size(); ++i) {
      count += (shape[i] - 1) * strides[i];
    }
    tensor.mutable_strides()->Add(strides.begin(), strides.end());
    tensor.set_data(RandomData(random, type, count));
  }
  if (Chance(random, 3)) {
    std::string& data = *tensor.mutable_data();
    data.resize((data.size() + 3) / 4 * 4);
    if (Chance(random, 2)) {
      data.resize(data.size() + 4 * static_cast<size_t>(Pick(random, 0, 9)));
      directml.set_input_total_tensor_size_bytes(
          static_cast<int64_t>(data.size()));
    }
  }
  const int64_t axis = Pick(random, 0, rank - 1);
  directml.set_axis(axis);
  const int64_t n = shape[static_cast<size_t>(axis)];
  const int64_t k = RandomK(random, n);
  directml.set_k(k);
  directml.set_strict(k < n && Chance(random, 4));
  if (version == 1) {
    directml.set_axis_direction(Chance(random, 2)
                                    ? v1::AXIS_DIRECTION_INCREASING
                                    : v1::AXIS_DIRECTION_DECREASING);
  }
  std::vector<int64_t> output = shape;
  output[static_cast<size_t>(axis)] = k;
  if (Chance(random, 2)) {
    DescribeOutput(random, output, *directml.mutable_output_value());
  }
  if (Chance(random, 2)) {
    v1::TensorDesc& desc = *directml.mutable_output_index();
    DescribeOutput(random, output, desc);
    if (newest && Chance(random, 2)) desc.set_data_type(v1::DATA_TYPE_U64);
  }
}

}  // namespace

uint64_t Seed(uint64_t default_seed) {
  const char* text = std::getenv("TOPK_TEST_SEED");
  const uint64_t seed =
      text == nullptr ? default_seed : std::strtoull(text, nullptr, 10);
  std::printf("TOPK_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

int64_t Pick(Random& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

std::vector<v1::DataType> AllowedTypes(v1::Dialect dialect, int version,
                                       int level) {
  std::vector<v1::DataType> types = {v1::DATA_TYPE_F16, v1::DATA_TYPE_F32};
  const auto add = [&types](const std::vector<v1::DataType>& more) {
    types.insert(types.end(), more.begin(), more.end());
  };
  const bool openvino = dialect == v1::DIALECT_OPENVINO;
  const bool directml = dialect == v1::DIALECT_DIRECTML;
  if (!directml) add({v1::DATA_TYPE_F64});
  if (directml ? level >= 0x2100 : openvino || version >= 11) {
    add({v1::DATA_TYPE_I8, v1::DATA_TYPE_I16, v1::DATA_TYPE_I32,
         v1::DATA_TYPE_U8, v1::DATA_TYPE_U16, v1::DATA_TYPE_U32});
  }
  if (directml ? level >= 0x5000 : openvino || version >= 11) {
    add({v1::DATA_TYPE_I64, v1::DATA_TYPE_U64});
  }
  if (openvino || (!directml && version >= 24)) add({v1::DATA_TYPE_BF16});
  if (openvino) {
    add({v1::DATA_TYPE_U1, v1::DATA_TYPE_U2, v1::DATA_TYPE_U3, v1::DATA_TYPE_U4,
         v1::DATA_TYPE_U6, v1::DATA_TYPE_I4, v1::DATA_TYPE_NF4,
         v1::DATA_TYPE_F4E2M1, v1::DATA_TYPE_F8E4M3, v1::DATA_TYPE_F8E5M2,
         v1::DATA_TYPE_F8E8M0});
  }
  return types;
}

std::string RandomData(Random& random, v1::DataType type, int64_t count) {
  std::string data(DataBytes(type, static_cast<size_t>(count)), '\0');
  const int64_t family = Pick(random, 0, 5);
  // Sets the unused bits of the last byte.
  if (!data.empty()) data.back() = static_cast<char>(random());
  const std::vector<uint64_t> specials = SpecialBits(type);
  const uint64_t constant = OneOf(random, specials);
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    uint64_t bits = random();
    if (family == 1) bits = OneOf(random, specials);
    if (family == 2) bits = constant;
    if (family == 3) bits = i;  // ascending, also as floats
    if (family == 4) bits = static_cast<uint64_t>(count) - i;
    if (family == 5) bits = i % 3;
    WriteBits(type, i, bits, data);
  }
  return data;
}

v1::TopKRequest RandomRequest(Random& random) {
  v1::TopKRequest request;
  switch (Pick(random, 0, 2)) {
    case 0:
      MakeOnnx(random, request);
      break;
    case 1:
      MakeOpenVino(random, request);
      break;
    default:
      MakeDirectML(random, request);
  }
  if (Chance(random, 4)) {
    request.mutable_output()->set_selection(
        static_cast<v1::OutputSelection>(Pick(random, 0, 2)));
  }
  if (Chance(random, 4)) request.set_index_offset(Pick(random, 0, 1 << 20));
  if (Chance(random, 4)) request.set_request_id("a request");
  return request;
}

}  // namespace topk::testing
