#include "tests/support/oracle.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

namespace topk::testing {
namespace {

static_assert(std::numeric_limits<long double>::digits >= 64,
              "the oracle's numbers must hold 64-bit integers");

constexpr int kInvalid = 3;
constexpr int kExhausted = 8;
constexpr int kUnimplemented = 12;
// 2^63 - 1. Comparisons are exact: long double has all integers up to 2^64.
constexpr long double kMaxSize = 9223372036854775807.0L;
// The maximum number of elements in a DirectML buffer.
constexpr long double kMaxBufferElements = 4294967295.0L;

using TypeSet = std::set<int>;
const TypeSet kIntegers = {
    v1::DATA_TYPE_I8, v1::DATA_TYPE_I16, v1::DATA_TYPE_I32, v1::DATA_TYPE_I64,
    v1::DATA_TYPE_U8, v1::DATA_TYPE_U16, v1::DATA_TYPE_U32, v1::DATA_TYPE_U64};
const TypeSet kSmallIntegers = {v1::DATA_TYPE_U1, v1::DATA_TYPE_U2,
                                v1::DATA_TYPE_U3, v1::DATA_TYPE_U4,
                                v1::DATA_TYPE_U6, v1::DATA_TYPE_I4};

TypeSet Union(TypeSet a, const TypeSet& b) {
  a.insert(b.begin(), b.end());
  return a;
}

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

// A request in terms common to all operators.
struct OperatorRequest {
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  int64_t axis = 0;
  int64_t k = 0;
  bool largest = true;
  bool by_index = false;
  v1::DataType index_type = v1::DATA_TYPE_I64;
  v1::TensorDesc values;
  v1::TensorDesc indices;
};

class RequestChecker {
 public:
  RequestChecker(const v1::TopKRequest& request, const OracleLimits& limits)
      : request_(request), limits_(limits) {}

  Expectation Decide() {
    if (request_.request_id().size() > 256) Reject("request_id");
    if (tensor().has_shared_memory()) {
      Reject("tensor.shared_memory", kUnimplemented);
    }
    if (!request_.has_spec()) Reject("spec");
    if (!request_.has_tensor()) Reject("tensor");
    if (request_.output().has_values()) {
      Reject("output.values", kUnimplemented);
    }
    if (request_.output().has_indices()) {
      Reject("output.indices", kUnimplemented);
    }
    if (request_.output().selection() < 0 ||
        request_.output().selection() > 2) {
      Reject("output.selection");
    }
    if (!request_.has_spec() || !request_.has_tensor()) return result_;
    op_.shape.assign(tensor().shape().begin(), tensor().shape().end());
    if (op_.shape.empty()) Reject("tensor.shape");
    if (rank() > limits_.max_rank) Reject("tensor.shape", kExhausted);
    switch (request_.spec().dialect()) {
      case v1::DIALECT_ONNX:
        Onnx();
        break;
      case v1::DIALECT_OPENVINO:
        OpenVino();
        break;
      case v1::DIALECT_DIRECTML:
        DirectML();
        break;
      default:
        result_.is_known = !v1::Dialect_IsValid(request_.spec().dialect()) ||
                           request_.spec().dialect() == 0;
        Reject("spec.dialect");
        return result_;
    }
    CheckCommonRules();
    if (result_.violations.empty()) ComputeResponse();
    return result_;
  }

 private:
  const v1::Tensor& tensor() const { return request_.tensor(); }
  int version() const { return request_.spec().version(); }
  int64_t rank() const { return static_cast<int64_t>(op_.shape.size()); }

  void Reject(const std::string& field, int code = kInvalid) {
    result_.violations.push_back({code, field});
  }

  void RefuseStrides(const std::vector<int64_t>& strides,
                     const std::string& field) {
    if (!strides.empty()) Reject(field);
    for (size_t i = 0; i < strides.size(); ++i) {
      Reject(field + "[" + std::to_string(i) + "]");
    }
  }

  // Rejects the request if the dialect's attributes are not set.
  bool RequireAttributes(bool are_set, const std::string& name) {
    if (are_set) return true;
    const bool none =
        request_.attributes_case() == v1::TopKRequest::ATTRIBUTES_NOT_SET;
    Reject(none ? name : "attributes");
    return false;
  }

  void CheckType(int level = 0) {
    const auto types =
        AllowedTypes(request_.spec().dialect(), version(), level);
    if (std::ranges::count(types, tensor().data_type()) == 0) {
      Reject("tensor.data_type");
    }
  }

  void CheckPacked() {
    if (tensor().strides_size() > 0) Reject("tensor.strides");
  }

  void ReadK(const v1::KInput& k, const std::string& field,
             const TypeSet& types, const std::vector<int64_t>& shape) {
    if (k.has_value()) {
      SetK(k.value());
      return;
    }
    if (!k.has_tensor()) {
      Reject(field);
      return;
    }
    const v1::Tensor& t = k.tensor();
    const std::string path = field + ".tensor";
    const bool type_ok = types.count(t.data_type()) > 0;
    if (!type_ok) Reject(path + ".data_type");
    if (std::vector<int64_t>(t.shape().begin(), t.shape().end()) != shape) {
      Reject(path + ".shape");
    }
    if (t.strides_size() > 0) Reject(path + ".strides");
    if (t.has_shared_memory()) Reject(path + ".shared_memory", kUnimplemented);
    if (!type_ok) return;
    if (t.data().size() != DataBytes(t.data_type(), 1)) {
      if (!t.has_shared_memory()) Reject(path + ".data");
      return;
    }
    const long double value = ReadNumber(t.data_type(), t.data(), 0).value;
    SetK(value > kMaxSize ? std::numeric_limits<int64_t>::max()
                          : static_cast<int64_t>(value));
  }

  void SetK(int64_t k) {
    op_.k = k;
    k_known_ = true;
  }

  void SetAxis(int64_t axis, const std::string& field, bool from_back) {
    op_.axis = axis;
    if (axis < (from_back ? -rank() : 0) || axis >= rank()) {
      if (rank() > 0) Reject(field);
      axis_ok_ = false;
      return;
    }
    if (axis < 0) op_.axis += rank();
  }

  void Onnx() {
    const int v = version();
    if (v != 1 && v != 10 && v != 11 && v != 24) Reject("spec.version");
    if (!RequireAttributes(request_.has_onnx(), "onnx")) return;
    const v1::OnnxTopK& a = request_.onnx();
    field_ = "onnx";
    CheckType();
    CheckPacked();
    SetAxis(a.has_axis() ? a.axis() : -1, "onnx.axis", true);
    if (v == 1 && a.k().has_tensor()) {
      Reject("onnx.k.tensor");
    } else {
      ReadK(a.k(), "onnx.k", {v1::DATA_TYPE_I64}, {1});
    }
    for (const auto& [has, value, name] :
         {std::tuple(a.has_largest(), a.largest(), "onnx.largest"),
          std::tuple(a.has_sorted(), a.sorted(), "onnx.sorted")}) {
      if (has && (v < 11 || value < 0 || value > 1)) Reject(name);
    }
    op_.largest = !a.has_largest() || a.largest() == 1;
    op_.index_type = v1::DATA_TYPE_I64;
  }

  void OpenVino() {
    const int v = version();
    if (v != 1 && v != 3 && v != 11) Reject("spec.version");
    if (!RequireAttributes(request_.has_openvino(), "openvino")) return;
    const v1::OpenVinoTopK& a = request_.openvino();
    field_ = "openvino";
    CheckType();
    CheckPacked();
    if (!a.has_axis()) Reject("openvino.axis");
    SetAxis(a.axis(), "openvino.axis", true);
    if (a.mode() != "min" && a.mode() != "max") Reject("openvino.mode");
    if (a.sort() != "value" && a.sort() != "index" && a.sort() != "none") {
      Reject("openvino.sort");
    }
    ReadK(a.k(), "openvino.k",
          v == 1
              ? TypeSet{v1::DATA_TYPE_I8, v1::DATA_TYPE_I32, v1::DATA_TYPE_I64}
              : Union(kIntegers, kSmallIntegers),
          {});
    if (a.has_stable() && (v < 11 || (a.stable() && a.sort() == "none"))) {
      Reject("openvino.stable");
    }
    op_.index_type = v1::DATA_TYPE_I32;
    if (a.has_index_element_type()) {
      if (v == 1 || (a.index_element_type() != "i32" &&
                     a.index_element_type() != "i64")) {
        Reject("openvino.index_element_type");
      }
      if (a.index_element_type() == "i64") op_.index_type = v1::DATA_TYPE_I64;
    }
    op_.largest = a.mode() == "max";
    op_.by_index = a.sort() == "index";
  }

  void DirectML() {
    const int v = version();
    if (v != 0 && v != 1) Reject("spec.version");
    if (!RequireAttributes(request_.has_directml(), "directml")) return;
    const v1::DirectMLTopK& a = request_.directml();
    field_ = "directml";
    const std::set<int> levels = {0x1000, 0x2000, 0x2100, 0x3000, 0x3100,
                                  0x4000, 0x4100, 0x5000, 0x5100, 0x5200,
                                  0x6000, 0x6100, 0x6200, 0x6300, 0x6400};
    int level = a.feature_level();
    if (level == 0) level = 0x6400;
    if (levels.count(level) == 0 || (v == 1 && level < 0x2100)) {
      Reject("directml.feature_level");
    }
    const bool old = level < 0x3100;
    if (rank() > 0 && (old ? rank() != 4 : rank() > 8)) Reject("tensor.shape");
    for (size_t i = 0; i < op_.shape.size(); ++i) {
      if (op_.shape[i] < 1 || op_.shape[i] > 4294967295) {
        Reject("tensor.shape[" + std::to_string(i) + "]");
      }
    }
    CheckType(level);
    if (!a.has_axis()) Reject("directml.axis");
    SetAxis(a.axis(), "directml.axis", false);
    if (!a.has_k()) Reject("directml.k");
    SetK(a.k());
    if (a.strict() && axis_ok_ && rank() > 0 &&
        op_.k == op_.shape[static_cast<size_t>(op_.axis)]) {
      Reject("directml.k");
    }
    const int direction = a.axis_direction();
    if (v == 0 ? direction != 0 : direction != 1 && direction != 2) {
      Reject("directml.axis_direction");
    }
    op_.largest = direction != v1::AXIS_DIRECTION_INCREASING;
    op_.strides.assign(tensor().strides().begin(), tensor().strides().end());
    CheckStrides(op_.strides, "tensor.strides");
    if (Product(op_.shape) > kMaxBufferElements) Reject("tensor.shape");
    CheckBuffer(Length(op_.shape, op_.strides, 8),
                ElementBits(tensor().data_type()), "tensor.strides",
                a.input_total_tensor_size_bytes(),
                "directml.input_total_tensor_size_bytes");
    op_.values = a.output_value();
    op_.indices = a.output_index();
    CheckOutput(op_.values, "directml.output_value", {tensor().data_type()},
                ElementBits(tensor().data_type()));
    TypeSet index_types = {v1::DATA_TYPE_U32};
    if (level >= 0x5000) index_types.insert(v1::DATA_TYPE_U64);
    op_.index_type = op_.indices.data_type() == 0 ? v1::DATA_TYPE_U32
                                                  : op_.indices.data_type();
    CheckOutput(op_.indices, "directml.output_index", index_types,
                op_.index_type == v1::DATA_TYPE_U64 ? 64 : 32);
  }

  static long double Product(const std::vector<int64_t>& sizes) {
    long double product = 1;
    for (const int64_t size : sizes) product *= static_cast<long double>(size);
    return product;
  }

  // Checks the number of elements that a buffer spans, and the size in bytes
  // that the request sets for the buffer (`total`; 0 = not set).
  void CheckBuffer(long double elements, size_t bits,
                   const std::string& elements_field, int64_t total,
                   const std::string& total_field) {
    if (elements > kMaxBufferElements) Reject(elements_field);
    const auto width = static_cast<long double>(bits / 8);
    const auto bytes = static_cast<long double>(total);
    if (total != 0 && (total % 4 != 0 || bytes < RoundUp4(elements * width) ||
                       bytes > RoundUp4(kMaxBufferElements * width))) {
      Reject(total_field);
    }
  }

  void CheckStrides(const std::vector<int64_t>& strides,
                    const std::string& field) {
    if (strides.empty()) return;
    if (strides.size() != op_.shape.size()) Reject(field);
    for (size_t i = 0; i < strides.size(); ++i) {
      if (strides[i] < 0 || strides[i] > 4294967295) {
        Reject(field + "[" + std::to_string(i) + "]");
      }
    }
  }

  // Returns the number of bytes from the first to the last element, or a
  // negative number if another rule is violated. Empty strides mean packed.
  static long double Length(const std::vector<int64_t>& sizes,
                            const std::vector<int64_t>& strides, size_t bits) {
    if (!strides.empty() && strides.size() != sizes.size()) return -1;
    long double last = 0;
    long double packed = 1;
    bool empty = false;
    for (size_t i = sizes.size(); i-- > 0;) {
      const long double stride =
          strides.empty() ? packed : static_cast<long double>(strides[i]);
      if (sizes[i] < 0 || stride < 0) return -1;
      empty |= sizes[i] == 0;
      const auto size =
          static_cast<long double>(std::max<int64_t>(1, sizes[i]));
      last += (size - 1) * stride;
      packed *= size;
    }
    if (empty) return 0;
    const auto elements = last + 1;  // exact up to 2^64, also multiplied by 8
    return bits < 8 ? std::ceil(elements * static_cast<long double>(bits) / 8)
                    : elements * static_cast<long double>(bits / 8);
  }

  static long double RoundUp4(long double bytes) {
    return std::ceil(bytes / 4) * 4;
  }

  std::vector<int64_t> OutputShape() const {
    std::vector<int64_t> shape = op_.shape;
    if (axis_ok_ && !shape.empty())
      shape[static_cast<size_t>(op_.axis)] = op_.k;
    return shape;
  }

  void CheckOutput(const v1::TensorDesc& desc, const std::string& field,
                   const TypeSet& types, size_t bits) {
    if (desc.data_type() != 0 && types.count(desc.data_type()) == 0) {
      Reject(field + ".data_type");
    }
    const std::vector<int64_t> shape = OutputShape();
    if (desc.sizes_size() > 0) {
      if (desc.sizes_size() != static_cast<int>(shape.size())) {
        Reject(field + ".sizes");
      } else {
        for (int i = 0; i < desc.sizes_size(); ++i) {
          if (desc.sizes(i) != shape[static_cast<size_t>(i)]) {
            Reject(field + ".sizes[" + std::to_string(i) + "]");
          }
        }
      }
    }
    const std::vector<int64_t> strides(desc.strides().begin(),
                                       desc.strides().end());
    CheckStrides(strides, field + ".strides");
    const long double implied = RoundUp4(Length(shape, strides, bits));
    CheckBuffer(Length(shape, strides, 8), bits, field + ".strides",
                desc.total_tensor_size_bytes(),
                field + ".total_tensor_size_bytes");
    if (implied > kMaxSize) {
      Reject(field);
      RefuseStrides(strides, field + ".strides");
      return;
    }
    const bool value = field == "directml.output_value";
    if (!(value ? WantsValues() : WantsIndices()) || strides.empty() ||
        implied <= 0 || implied > limits_.max_output_bytes) {
      return;
    }
    std::vector<bool> places(static_cast<size_t>(Length(shape, strides, 8)));
    bool overlap = false;
    ForEachCoordinate(shape, [&](const std::vector<int64_t>& at) {
      const auto place = static_cast<size_t>(OffsetOf(at, strides));
      overlap |= places[place];
      places[place] = true;
    });
    if (overlap) Reject(field + ".strides");
  }

  bool WantsValues() const {
    return request_.output().selection() != v1::OUTPUT_SELECTION_INDICES_ONLY;
  }
  bool WantsIndices() const {
    return request_.output().selection() != v1::OUTPUT_SELECTION_VALUES_ONLY;
  }

  // Checks the rules common to all dialects, and the limits.
  void CheckCommonRules() {
    long double product = 1;  // the product of the nonzero sizes
    bool shape_ok = true;
    bool empty = false;
    for (size_t i = 0; i < op_.shape.size(); ++i) {
      const std::string path = "tensor.shape[" + std::to_string(i) + "]";
      if (op_.shape[i] > 0) product *= static_cast<long double>(op_.shape[i]);
      empty |= op_.shape[i] == 0;
      if (op_.shape[i] < 0 || product > kMaxSize) {
        Reject(path);
        shape_ok = false;
      }
    }
    if (field_.empty()) return;
    if (k_known_ && op_.k < 1) Reject(field_ + ".k");
    if (request_.index_offset() < 0) Reject("index_offset");
    if (axis_ok_ && rank() > 0) {
      const int64_t n = op_.shape[static_cast<size_t>(op_.axis)];
      if (k_known_ && op_.k > n) Reject(field_ + ".k");
      const long double max =
          op_.index_type == v1::DATA_TYPE_I32   ? 2147483647.0L
          : op_.index_type == v1::DATA_TYPE_U32 ? 4294967295.0L
                                                : kMaxSize;
      if (static_cast<long double>(n) - 1 > max) {
        Reject("tensor.shape");
      } else if (static_cast<long double>(n) - 1 +
                     static_cast<long double>(request_.index_offset()) >
                 max) {
        Reject("index_offset");
      }
    }
    if (!shape_ok) return;
    if (!empty && product > static_cast<long double>(limits_.max_elements)) {
      Reject("tensor.shape", kExhausted);
    }
    CheckInputLength();
    if (axis_ok_ && rank() > 0 && op_.k >= 1) CheckOutputLength();
  }

  void CheckInputLength() {
    const size_t bits = ElementBits(tensor().data_type());
    const long double exact = Length(op_.shape, op_.strides, bits);
    const bool padded = field_ == "directml";
    if ((padded ? RoundUp4(exact) : exact) > kMaxSize) {
      Reject("tensor.shape");
      RefuseStrides(op_.strides, "tensor.strides");
    }
    if (tensor().has_shared_memory()) return;
    const auto size = static_cast<long double>(tensor().data().size());
    const int64_t total = request_.directml().input_total_tensor_size_bytes();
    if (padded && total != 0) {
      if (size != static_cast<long double>(total)) Reject("tensor.data");
      return;
    }
    if (size == exact || (padded && size == RoundUp4(exact))) return;
    Reject("tensor.data");
  }

  void CheckOutputLength() {
    const long double values =
        OutputLength(op_.values, ElementBits(tensor().data_type()));
    const long double indices =
        OutputLength(op_.indices, ElementBits(op_.index_type));
    if (values > kMaxSize || indices > kMaxSize) Reject("tensor.shape");
    if ((WantsValues() ? values : 0) + (WantsIndices() ? indices : 0) >
        static_cast<long double>(limits_.max_output_bytes)) {
      const bool larger = values > indices;
      const bool described = larger ? request_.directml().has_output_value()
                                    : request_.directml().has_output_index();
      Reject(!described ? "tensor.shape"
             : larger   ? "directml.output_value"
                        : "directml.output_index",
             kExhausted);
    }
  }

  long double OutputLength(const v1::TensorDesc& desc, size_t bits) const {
    if (desc.total_tensor_size_bytes() > 0) {
      return static_cast<long double>(desc.total_tensor_size_bytes());
    }
    const std::vector<int64_t> strides(desc.strides().begin(),
                                       desc.strides().end());
    const long double exact = Length(OutputShape(), strides, bits);
    return strides.empty() ? exact : RoundUp4(exact);
  }

  static std::vector<int64_t> Packed(const std::vector<int64_t>& shape) {
    std::vector<int64_t> strides(shape.size(), 1);
    for (size_t i = shape.size(); i-- > 1;) {
      strides[i - 1] = strides[i] * shape[i];
    }
    return strides;
  }

  v1::Tensor Empty(v1::DataType type, const v1::TensorDesc& desc) const {
    v1::Tensor t;
    t.set_data_type(type);
    const std::vector<int64_t> shape = OutputShape();
    t.mutable_shape()->Add(shape.begin(), shape.end());
    *t.mutable_strides() = desc.strides();
    const long double length = OutputLength(desc, ElementBits(type));
    t.set_data(std::string(static_cast<size_t>(length), '\0'));
    return t;
  }

  void ComputeResponse() {
    // Ignore the descriptions of outputs that are not requested.
    const auto selection = request_.output().selection();
    if (selection == v1::OUTPUT_SELECTION_INDICES_ONLY) op_.values.Clear();
    if (selection == v1::OUTPUT_SELECTION_VALUES_ONLY) op_.indices.Clear();
    v1::Tensor values;
    v1::Tensor indices;
    if (WantsValues()) values = Empty(tensor().data_type(), op_.values);
    if (WantsIndices()) indices = Empty(op_.index_type, op_.indices);
    const std::vector<int64_t> out = OutputShape();
    const auto in_strides =
        op_.strides.empty() ? Packed(op_.shape) : op_.strides;
    const auto strides_of = [&](const v1::Tensor& t) {
      return t.strides_size() == 0
                 ? Packed(out)
                 : std::vector<int64_t>(t.strides().begin(), t.strides().end());
    };
    const auto value_strides = strides_of(values);
    const auto index_strides = strides_of(indices);
    const auto axis = static_cast<size_t>(op_.axis);
    const int type = tensor().data_type();

    std::vector<int64_t> slices = op_.shape;
    slices[axis] = 1;
    ForEachCoordinate(slices, [&](std::vector<int64_t> at) {
      const int64_t base = OffsetOf(at, in_strides);
      const auto place = [&](int64_t i) {
        return static_cast<size_t>(base + i * in_strides[axis]);
      };
      std::vector<Number> numbers;
      for (int64_t i = 0; i < op_.shape[axis]; ++i) {
        numbers.push_back(
            ReadNumber(tensor().data_type(), tensor().data(), place(i)));
      }
      const std::vector<int64_t> order =
          SelectBest(numbers, op_.k, op_.largest, op_.by_index);
      for (int64_t j = 0; j < op_.k; ++j) {
        const int64_t i = order[static_cast<size_t>(j)];
        at[axis] = j;
        const auto value_at = static_cast<size_t>(OffsetOf(at, value_strides));
        const auto index_at = static_cast<size_t>(OffsetOf(at, index_strides));
        if (WantsValues()) {
          WriteBits(type, value_at, ReadBits(type, tensor().data(), place(i)),
                    *values.mutable_data());
        }
        if (WantsIndices()) {
          WriteBits(op_.index_type, index_at,
                    static_cast<uint64_t>(i + request_.index_offset()),
                    *indices.mutable_data());
        }
      }
    });
    if (WantsValues()) *result_.response.mutable_values() = std::move(values);
    if (WantsIndices()) {
      *result_.response.mutable_indices() = std::move(indices);
    }
    result_.response.set_request_id(request_.request_id());
  }

  const v1::TopKRequest& request_;
  const OracleLimits limits_;
  OperatorRequest op_;
  std::string field_;  // path of the attributes field; "" = unknown
  bool axis_ok_ = true;
  bool k_known_ = false;  // whether K could be read
  Expectation result_;
};

}  // namespace

int64_t OffsetOf(const std::vector<int64_t>& at,
                 const std::vector<int64_t>& strides) {
  return std::inner_product(at.begin(), at.end(), strides.begin(), int64_t{0});
}

void ForEachCoordinate(
    const std::vector<int64_t>& shape,
    const std::function<void(const std::vector<int64_t>&)>& fn) {
  if (std::ranges::count(shape, 0) > 0) return;
  std::vector<int64_t> at(shape.size(), 0);
  for (;;) {
    fn(at);
    size_t d = shape.size();
    while (d > 0 && ++at[d - 1] == shape[d - 1]) at[--d] = 0;
    if (d == 0) return;
  }
}

std::vector<int64_t> SelectBest(const std::vector<Number>& numbers, int64_t k,
                                bool largest, bool by_index) {
  std::vector<int64_t> order(numbers.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) {
    if (largest) std::swap(a, b);
    return numbers[static_cast<size_t>(a)] < numbers[static_cast<size_t>(b)];
  });
  order.resize(static_cast<size_t>(k));
  if (by_index) std::ranges::sort(order);
  return order;
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
    std::memcpy(&bits, data.data() + i * bytes, bytes);
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
    std::memcpy(data.data() + i * bytes, &bits, bytes);
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

Expectation Oracle(const v1::TopKRequest& request, const OracleLimits& limits) {
  return RequestChecker(request, limits).Decide();
}

std::string Comparable(v1::TopKResponse response) {
  response.clear_execution();
  return response.SerializeAsString();
}

bool Allows(const Expectation& expectation, int code,
            const std::string& field) {
  return std::any_of(
      expectation.violations.begin(), expectation.violations.end(),
      [&](const Violation& v) { return v.code == code && v.field == field; });
}

}  // namespace topk::testing
