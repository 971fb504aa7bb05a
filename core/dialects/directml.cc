// DirectML DML_OPERATOR_TOP_K and DML_OPERATOR_TOP_K1. Quotations are from the
// page of DML_TOP_K1_OPERATOR_DESC,
// learn.microsoft.com/windows/win32/api/directml. DML_TOP_K_OPERATOR_DESC is
// equivalent to AxisDirection = DECREASING.
#include <array>
#include <limits>

#include "core/base/text.h"
#include "core/dialects/checks.h"
#include "core/dialects/dialect.h"

namespace topk {
namespace directml {
namespace {

// The types in the specification's "Tensor support" tables. Level 1_0 (TOP_K
// only) has the first two types, level 2_1 the first eight, and level 5_0 all
// ten.
constexpr std::array<DType, 10> kTypes = {
    DType::kF32, DType::kF16, DType::kI32, DType::kI16, DType::kI8,
    DType::kU32, DType::kU16, DType::kU8,  DType::kI64, DType::kU64};
constexpr std::span<const DType> kAllTypes = kTypes;
constexpr std::array<DType, 2> kIndexTypes = {DType::kU32, DType::kU64};
constexpr std::span<const DType> kAllIndexTypes = kIndexTypes;

constexpr int kTopK = 0;
constexpr std::array<OperatorVersion, 2> kVersions = {{
    {kTopK, "DirectML TOP_K", kTypes, kIndexTypes},
    {1, "DirectML TOP_K1", kTypes, kIndexTypes},
}};

constexpr int64_t kMaxUint = std::numeric_limits<uint32_t>::max();

// A row of a "Tensor support" table in DirectML's documentation.
struct LevelRow {
  v1::FeatureLevel from;
  int min_dimensions;
  int max_dimensions;
  std::span<const DType> types;
  std::span<const DType> index_types;
};
constexpr std::array<LevelRow, 4> kLevels = {{
    {v1::FEATURE_LEVEL_1_0, 4, 4, kAllTypes.first(2), kAllIndexTypes.first(1)},
    {v1::FEATURE_LEVEL_2_1, 4, 4, kAllTypes.first(8), kAllIndexTypes.first(1)},
    {v1::FEATURE_LEVEL_3_1, 1, 8, kAllTypes.first(8), kAllIndexTypes.first(1)},
    {v1::FEATURE_LEVEL_5_0, 1, 8, kAllTypes, kAllIndexTypes},
}};

std::string LevelName(v1::FeatureLevel level) {
  return level == v1::FEATURE_LEVEL_UNSPECIFIED ? "DirectML"
                                                : v1::FeatureLevel_Name(level);
}

// Returns the row for the requested feature level. Rejects TOP_K1 at level 1_0:
// TOP_K1 "was introduced in DML_FEATURE_LEVEL_2_1".
Result<const LevelRow*> FindLevel(const v1::DirectMLTopK& directml,
                                  const OperatorVersion& version) {
  const v1::FeatureLevel level = directml.feature_level();
  if (level == v1::FEATURE_LEVEL_UNSPECIFIED) return &kLevels.back();
  if (!v1::FeatureLevel_IsValid(level)) {
    return InvalidArgument("UNKNOWN_FEATURE_LEVEL", "directml.feature_level",
                           StrCat("feature level ", static_cast<int>(level),
                                  " is unknown; the newest is ",
                                  v1::FeatureLevel_Name(v1::FeatureLevel_MAX)));
  }
  if (version.version != kTopK && level < v1::FEATURE_LEVEL_2_1) {
    return InvalidArgument("OPERATOR_NOT_AT_LEVEL", "directml.feature_level",
                           StrCat(LevelName(level), " has no ", version.name,
                                  "; use FEATURE_LEVEL_2_1 or newer"));
  }
  const LevelRow* row = &kLevels.front();
  for (const LevelRow& candidate : kLevels) {
    if (candidate.from <= level) row = &candidate;
  }
  return row;
}

// Checks that the feature level allows the number of dimensions, and that each
// size is a nonzero UINT. DirectML cannot describe an empty tensor.
Status CheckSizes(const v1::TopKRequest& request, const LevelRow& level) {
  const v1::Tensor& tensor = request.tensor();
  const int count = tensor.shape_size();
  if (count < level.min_dimensions || count > level.max_dimensions) {
    const std::string range = level.min_dimensions == level.max_dimensions
                                  ? ""
                                  : StrCat(level.min_dimensions, " .. ");
    return InvalidArgument("DIMENSION_COUNT", "tensor.shape",
                           StrCat("the tensor has ", count, " dimensions; ",
                                  LevelName(request.directml().feature_level()),
                                  " allows ", range, level.max_dimensions));
  }
  for (int i = 0; i < count; ++i) {
    if (tensor.shape(i) < 1 || tensor.shape(i) > kMaxUint) {
      return InvalidArgument("SIZE_RANGE", StrCat("tensor.shape[", i, "]"),
                             StrCat("size ", tensor.shape(i), " of dimension ",
                                    i, " is outside 1 .. 4294967295 (UINT)"));
    }
  }
  return {};
}

// Reads AxisDirection, an attribute of TOP_K1 but not of TOP_K: "If set to
// DML_AXIS_DIRECTION_INCREASING, this operator returns the smallest K elements
// in order of increasing value. Otherwise, the largest K elements in order of
// decreasing value."
Result<Direction> ReadDirection(const v1::DirectMLTopK& directml,
                                const OperatorVersion& version) {
  const v1::AxisDirection direction = directml.axis_direction();
  if (version.version == kTopK) {
    if (direction == v1::AXIS_DIRECTION_UNSPECIFIED) {
      return Direction::kLargest;
    }
    return NoSuchAttribute("directml", "axis_direction", version, 1);
  }
  if (direction == v1::AXIS_DIRECTION_INCREASING) return Direction::kSmallest;
  if (direction == v1::AXIS_DIRECTION_DECREASING) return Direction::kLargest;
  return InvalidArgument(
      direction == v1::AXIS_DIRECTION_UNSPECIFIED ? "ATTRIBUTE_MISSING"
                                                  : "ATTRIBUTE_VALUE",
      "directml.axis_direction",
      StrCat("axis_direction = ", static_cast<int>(direction),
             " must be 1 (increasing) or 2 (decreasing)"));
}

// Reads an output's description into `output` and returns the element type.
Result<DType> ReadOutput(const v1::TensorDesc& desc, std::string_view field,
                         std::span<const DType> types, std::string_view owner,
                         OutputRequest& output) {
  if (&desc != &v1::TensorDesc::default_instance()) output.field = field;
  output.sizes.assign(desc.sizes().begin(), desc.sizes().end());
  output.strides.assign(desc.strides().begin(), desc.strides().end());
  output.total_bytes = desc.total_tensor_size_bytes();
  if (desc.data_type() == v1::DATA_TYPE_UNSPECIFIED) return types.front();
  return CheckDataType(desc.data_type(), types, StrCat(field, ".data_type"),
                       owner);
}

Result<PlanRequest> Parse(const v1::TopKRequest& request,
                          const OperatorVersion& version) {
  const v1::DirectMLTopK& directml = request.directml();
  const Result<const LevelRow*> level = FindLevel(directml, version);
  if (!level.ok()) return level.status();
  if (Status s = CheckSizes(request, **level); !s.ok()) return s;

  PlanRequest plan;
  const std::string owner = LevelName(directml.feature_level());
  const Result<DType> type = CheckDataType(
      request.tensor().data_type(), (*level)->types, "tensor.data_type", owner);
  if (!type.ok()) return type.status();
  plan.dtype = *type;
  plan.strides.assign(request.tensor().strides().begin(),
                      request.tensor().strides().end());
  // Buffers are padded to a multiple of 4 bytes. The client may omit the
  // padding if the request does not set the total size.
  plan.is_buffer = true;
  plan.total_bytes = directml.input_total_tensor_size_bytes();
  // Axis is a required UINT, so it cannot count from the back.
  if (!directml.has_axis()) {
    return InvalidArgument("ATTRIBUTE_MISSING", "directml.axis",
                           "axis is required");
  }
  plan.axis = directml.axis();
  plan.axis_from_back = false;
  if (!directml.has_k()) return MissingK("directml.k", version.name);
  plan.k = directml.k();
  // DirectML accepts k = n, but its documentation says "K must be greater than
  // 0, but less than the number of elements in the InputTensor along the
  // dimension specified by Axis."
  plan.strict = directml.strict();
  const Result<Direction> direction = ReadDirection(directml, version);
  if (!direction.ok()) return direction.status();
  plan.direction = *direction;

  // The output values must have the input's type.
  const std::array<DType, 1> value_types = {*type};
  const Result<DType> values =
      ReadOutput(directml.output_value(), "directml.output_value", value_types,
                 "the input", plan.values);
  if (!values.ok()) return values.status();
  const Result<DType> indices =
      ReadOutput(directml.output_index(), "directml.output_index",
                 (*level)->index_types, owner, plan.indices);
  if (!indices.ok()) return indices.status();
  plan.index_type = *indices;
  return plan;
}

}  // namespace
}  // namespace directml

extern const Dialect kDirectML = {
    v1::DIALECT_DIRECTML,       "directml",          "DirectML",
    v1::TopKRequest::kDirectml, directml::kVersions, directml::Parse};

}  // namespace topk
